# What an installed ZombieGuard consists of: one list for scripts/install and scripts/package-deb.
# Sourced after common.sh, never run.

# The seconds since 1970 that generated files are dated by: SOURCE_DATE_EPOCH, else the last commit, else Package.swift.
find_epoch() {
    [ -n "${SOURCE_DATE_EPOCH-}" ] || SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Package.swift)
    case $SOURCE_DATE_EPOCH in
    '' | *[!0-9]*) fail "SOURCE_DATE_EPOCH is '$SOURCE_DATE_EPOCH'" "seconds since 1970, such as $(date +%s)" ;;
    esac
    export SOURCE_DATE_EPOCH
}

# make_documents FOLDER: what the program itself generates, there: the manual page and the completions.
make_documents() {
    local shell
    documents_made=$1
    mkdir -p "$documents_made"
    build/bin/zguard help --man >"$documents_made/zguard.1"
    gzip -9nf "$documents_made/zguard.1"
    for shell in bash zsh fish; do build/bin/zguard completions "$shell" >"$documents_made/completions.$shell"; done
}

# list_files ZSH_FOLDER: lines "MODE SOURCE TARGET", the targets below a prefix such as /usr. Names have no blanks.
list_files() {
    local path
    cat <<EOF
755 build/bin/zguard bin/zguard
644 build/lib/libzguard.so lib/zguard/libzguard.so
644 $documents_made/zguard.1.gz share/man/man1/zguard.1.gz
644 $documents_made/completions.bash share/bash-completion/completions/zguard
644 $documents_made/completions.zsh share/zsh/$1/_zguard
644 $documents_made/completions.fish share/fish/vendor_completions.d/zguard.fish
644 README.md share/doc/zguard/README.md
EOF
    for path in docs/*.md docs/*.json; do
        [ ! -e "$path" ] || echo "644 $path share/doc/zguard/$path"
    done
    for path in Debuggers/*.py; do
        [ ! -e "$path" ] || echo "644 $path share/zguard/${path##*/}"
    done
}

# install_files PREFIX ZSH_FOLDER: copies them.
install_files() {
    local mode source target
    list_files "$2" | while read -r mode source target; do
        install -D -m "$mode" "$source" "$1/$target" || fail "cannot install $1/$target"
    done
}
