# Lists the files of an installation, for scripts/install, scripts/package-deb and scripts/release.
# Sourced after common.sh, never run.

version=$(sed -n 's/^let version = "\(.*\)"$/\1/p' Package.swift)
host=$(uname -m)
built=${ZG_BUILT:-build} # scripts/release has its own

# built_for ARCHITECTURE: prints the directory with bin/zguard and lib/libzguard.so of an architecture.
built_for() { if [ "$1" = "$host" ]; then echo "$built"; else echo "$built/$1"; fi; }

# need_build ARCHITECTURE: if files are missing, builds them, but only this machine's, and only in the directory build;
# otherwise fails with a message.
need_build() {
    local there
    there=$(built_for "$1")
    if [ -x "$there/bin/zguard" ] && [ -e "$there/lib/libzguard.so" ]; then return 0; fi
    if [ "$1" = "$host" ] && [ "$there" = build ]; then
        scripts/build
    else
        echo "$(basename "$0"): error: $there has no bin/zguard or no lib/libzguard.so: scripts/build --arch $1 --zguard makes them" >&2
        return 1
    fi
}

# Sets SOURCE_DATE_EPOCH, the time stamp of generated files in seconds since 1970: the given value, else the time of the
# last commit, else of Package.swift.
find_epoch() {
    [ -n "${SOURCE_DATE_EPOCH-}" ] || SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Package.swift)
    case $SOURCE_DATE_EPOCH in
    '' | *[!0-9]*) fail "SOURCE_DATE_EPOCH is '$SOURCE_DATE_EPOCH'" "seconds since 1970, such as $(date +%s)" ;;
    esac
    export SOURCE_DATE_EPOCH
}

# make_documents FOLDER: writes the manual page and the shell completions, which zguard generates, into the folder.
make_documents() {
    local shell
    documents_made=$1
    mkdir -p "$documents_made"
    "$(built_for "$host")/bin/zguard" help --man >"$documents_made/zguard.1"
    gzip -9nf "$documents_made/zguard.1"
    for shell in bash zsh fish; do "$(built_for "$host")/bin/zguard" completions "$shell" >"$documents_made/completions.$shell"; done
}

# list_files BUILT ZSH_FOLDER: prints lines "MODE SOURCE TARGET". Targets are relative to a prefix such as /usr. Names
# contain no blanks.
list_files() {
    local path
    cat <<EOF
755 $1/bin/zguard bin/zguard
644 $1/lib/libzguard.so lib/zguard/libzguard.so
644 $documents_made/zguard.1.gz share/man/man1/zguard.1.gz
644 $documents_made/completions.bash share/bash-completion/completions/zguard
644 $documents_made/completions.zsh share/zsh/$2/_zguard
644 $documents_made/completions.fish share/fish/vendor_completions.d/zguard.fish
644 README.md share/doc/zguard/README.md
644 Services/zguard-collect.service lib/systemd/system/zguard-collect.service
644 Services/zguard-alerts.service lib/systemd/system/zguard-alerts.service
EOF
    for path in docs/*.md docs/*.json; do
        [ ! -e "$path" ] || echo "644 $path share/doc/zguard/$path"
    done
    for path in Debuggers/*.py; do
        [ ! -e "$path" ] || echo "644 $path share/zguard/${path##*/}"
    done
}

# install_files BUILT PREFIX ZSH_FOLDER: copies the files of list_files below the prefix.
install_files() {
    local mode source target
    list_files "$1" "$3" | while read -r mode source target; do
        install -D -m "$mode" "$source" "$2/$target" || fail "cannot install $2/$target"
    done
}

# strip_files PREFIX: removes symbols and comments that only debuggers read. The toolchain's llvm-objcopy supports all
# architectures.
strip_files() {
    "$toolchain/llvm-objcopy" --strip-all --remove-section=.comment "$1/bin/zguard"
    "$toolchain/llvm-objcopy" --strip-unneeded --remove-section=.comment "$1/lib/zguard/libzguard.so"
}
