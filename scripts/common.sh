# Functions shared by the scripts: find the repository root and the Swift toolchain, install packages, and link the
# preload library.
# Sourced, never run.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

fail() {
    echo "$(basename "$0"): error: $1" >&2
    [ $# -lt 2 ] || echo "hint: $2" >&2
    exit 1
}

# Sets `toolchain` to the directory of the Swift toolchain, whose clang builds the runtime.
find_toolchain() {
    command -v swift >/dev/null || fail "swift is not on the PATH" "install Swift 6.3 from https://www.swift.org/install/linux"
    toolchain=$(dirname "$(readlink -f "$(command -v swift)")")
    [ -x "$toolchain/clang" ] || toolchain=$(dirname "$(readlink -f "$(swift -print-target-info 2>/dev/null |
        sed -n 's/.*"runtimeResourcePath": "\(.*\)\/lib\/swift".*/\1\/bin\/swift/p')")")
    [ -x "$toolchain/clang" ] || fail "the Swift toolchain at $toolchain has no clang"
}

# Prints the version of the Swift toolchain, such as 6.3.1; prints nothing if unknown.
swift_version() {
    swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9.]*[0-9]\).*/\1/p' | head -1
}

# need COMMAND-OR-FILE PACKAGE ...: installs the packages whose command or file is missing.
need() {
    local missing=()
    while [ $# -gt 1 ]; do
        case $1 in
        /*) [ -e "$1" ] || missing+=("$2") ;;
        *) command -v "$1" >/dev/null || missing+=("$2") ;;
        esac
        shift 2
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        fail "these packages are missing: ${missing[*]}" "sudo apt-get install ${missing[*]}"
    fi
    echo "installing ${missing[*]}"
    local log=$root/build/apt.log
    mkdir -p "$root/build"
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1; then
        tail -5 "$log" >&2
        fail "apt-get could not install ${missing[*]}" "the whole output is in $log"
    fi
}

# The preload library is linked here, because the package manager's dynamic libraries need the Swift runtime. It exports
# the published functions and depends only on libc. Its debug information is DWARF 4: Debian 12's valgrind fails on
# clang's DWARF 5 when it loads a guarded process.

# Prints the compiler flags, one per line. Tests/Support/builds.py also calls this function.
library_compile_flags() {
    local version
    version=$(sed -n 's/^let version = "\(.*\)"$/\1/p' Package.swift)
    [ -n "$version" ] || fail "Package.swift names no version"
    printf '%s\n' -std=c17 -O2 -gdwarf-4 -DZG_VERSION="\"$version\"" -Wall -Wextra -Werror -fPIC -fexceptions \
        -fvisibility=hidden -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free -flto \
        -ffile-prefix-map="$root=."
}

# Prints the linker flags, one per line. --wrap: the library's own calls of functions that it publishes go to libc
# (Sources/CZombie/platform/plain_calls.c).
library_link_flags() {
    printf '%s\n' -shared -fuse-ld=lld -static-libgcc -Wl,-soname,libzguard.so -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,-z,nodelete \
        -Wl,--build-id -Wl,--no-undefined -Wl,--wrap=memcpy -Wl,--wrap=memmove -Wl,--wrap=memset -Wl,--wrap=memcmp \
        -Wl,--wrap=bcmp -Wl,--wrap=memchr -Wl,--wrap=strlen
}

# need_cross_compiler ARCH: installs libc and libgcc of another architecture from the packages of Debian's cross
# compilers.
need_cross_compiler() {
    local name=${1/_/-}
    need "/usr/$1-linux-gnu/lib/libc.so.6" "libc6-dev-${name/aarch64/arm64}-cross" "$1-linux-gnu-gcc" "gcc-$name-linux-gnu"
}

# Prints clang's flags for cross-compiling, one per line.
cross_flags() {
    printf '%s\n' "--target=$1-linux-gnu"
}

# build_static_library OUTPUT [FLAG...]: compiles the runtime for static executables into an archive of one object, so
# that its malloc is linked with all that belongs to it.
build_static_library() {
    local output=$1 objects compile source
    shift
    compile=$(library_compile_flags | grep -v -e -flto)
    mapfile -t compile <<<"$compile"
    compile+=(-DZG_STATIC -DZG_IN_BUNDLE -ISources/CZombieStatic -ISources/CZombie -ISources/CZombiePublish -ISources/CZombiePublish/include "$@")
    objects=$(mktemp -d "$output.XXXXXX")
    for source in Sources/CZombie/*/*.c Sources/CZombiePublish/*.c Sources/CZombieStatic/*.c; do echo "$source"; done |
        xargs -P 2 -I {} sh -c 'source=$1; shift; exec "$@" -c "$source" -o "$0/$(echo "$source" | tr / _).o"' \
            "$objects" {} "$toolchain/clang" "${compile[@]}"
    "$toolchain/ld.lld" -r -o "$objects/zguard.o" "$objects"/*.c.o
    rm -f "$output"
    ar rcs "$output" "$objects/zguard.o"
    copy_from_musl "$objects" "$output"
    rm -r "$objects"
}

# musl_flags INCLUDES: prints clang's flags for musl, one per line. Links the kernel's headers, which musl lacks, into
# the folder INCLUDES.
musl_flags() {
    local processor
    processor=$(uname -m)
    mkdir -p "$1"
    ln -sfn /usr/include/linux "$1/linux"
    ln -sfn "/usr/include/$processor-linux-gnu/asm" "$1/asm"
    ln -sfn /usr/include/asm-generic "$1/asm-generic"
    printf '%s\n' "--target=$processor-linux-musl" -nostdlibinc -isystem "/usr/include/$processor-linux-musl" -idirafter "$1"
}

# copy_from_musl FOLDER ARCHIVE: adds copies of functions of musl's libc.a to the archive, under the names zg_musl_… that
# the runtime, FOLDER/zguard.o, uses. The runtime itself defines functions with the original names.
copy_from_musl() {
    local libc names symbols name renamed=() member
    libc=/usr/lib/$(uname -m)-linux-musl/libc.a
    names=$(nm -u "$1/zguard.o" | sed -n 's/.* zg_musl_//p')
    for name in $names; do renamed+=(--redefine-sym "$name=zg_musl_$name"); done
    symbols=$(nm -A "$libc" 2>/dev/null)
    for name in $names; do
        member=$(sed -n "s/^[^:]*:\([^:]*\):[0-9a-f]* [TW] $name\$/\1/p" <<<"$symbols" | head -1)
        [ -n "$member" ] || fail "musl's libc.a has no '$name'"
        [ ! -e "$1/$member" ] || continue
        (cd "$1" && ar x "$libc" "$member" && objcopy "${renamed[@]}" "$member")
    done
    [ -z "$names" ] || ar r "$2" "$1"/*.lo
}

# build_library OUTPUT [FLAG...]: compiles and links the preload library.
build_library() {
    local output=$1 compile link
    shift
    compile=$(library_compile_flags)
    mapfile -t compile <<<"$compile"
    mapfile -t link < <(library_link_flags)
    "$toolchain/clang" "${compile[@]}" -ISources/CZombie -ISources/CZombiePublish/include "$@" Sources/CZombie/*/*.c \
        Sources/CZombiePublish/*.c "${link[@]}" -o "$output"
}

# make_static_libraries FOLDER LIBSTDCXX MUSL: makes a folder in which the linker finds libstdc++ and libm as archives
# only, so that zguard needs no library but libc. The functions of libm are musl's: glibc's choose code for the processor
# through internals of the libc that they were built with.
make_static_libraries() {
    local folder=$1 list
    mkdir -p "$folder"
    ln -sf "$2" "$folder/libstdc++.a"
    list=$folder/functions
    LC_ALL=C comm -12 <(defined_functions --dynamic "$(gcc -print-file-name=libm.so.6)") <(defined_functions "$3") >"$list"
    # shellcheck disable=SC2046 # one argument for each function
    "$toolchain/ld.lld" -r -o "$folder/all.o" $(sed 's/^/--undefined=/' "$list") "$3"
    "$toolchain/llvm-objcopy" --keep-global-symbols="$list" "$folder/all.o" "$folder/math.o"
    rm -f "$folder/libm.a"
    ZERO_AR_DATE=1 "$toolchain/llvm-ar" rcsD "$folder/libm.a" "$folder/math.o"
    rm "$folder/all.o" "$folder/math.o"
}

# Prints the public functions that a library defines, one per line.
defined_functions() {
    "$toolchain/llvm-nm" --defined-only --extern-only --format=posix "$@" 2>/dev/null |
        sed -n 's/^\([a-z][a-z0-9_]*\)\(@.*\)\{0,1\} [TWi] .*/\1/p' | LC_ALL=C sort -u
}
