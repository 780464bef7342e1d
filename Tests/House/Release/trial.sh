#!/bin/sh
# Tries an unpacked archive, and then a package, in a root with gcc, man and xz. $1: the archive, $2: the package, $3:
# an empty directory.
# Prints "passed NAME", "skipped NAME: WHY", or "FAILED NAME" with the output, and continues. release.py parses this.
archive=$1 package=$2 work=$3
mkdir -p "$work" && cd "$work" || exit 1
top=$(basename "$archive" .tar.xz)

tried() {
    if [ "$2" = 0 ]; then
        echo "passed $1"
    else
        echo "FAILED $1"
        sed 's/^/    /' said | tail -20
    fi
}

# try NAME COMMAND…: passes if the command exits with 0.
try() {
    name=$1
    shift
    "$@" >said 2>&1
    tried "$name" $?
}

# expect NAME STATUS PATTERN COMMAND…: passes if the command exits with STATUS and its output matches PATTERN.
expect() {
    name=$1 status=$2 pattern=$3
    shift 3
    "$@" >said 2>&1
    is=$?
    [ "$is" = "$status" ] && grep -Eq -- "$pattern" said
    result=$?
    [ "$result" = 0 ] || echo "status $is, not $status with '$pattern'" >>said
    tried "$name" $result
}

cat >use.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cart {
    char *name;
    long total;
};

static void __attribute__((noinline)) check_out(struct cart *cart) { free(cart); }

static long __attribute__((noinline)) total_of(const struct cart *cart) { return cart->total; }

int main(void) {
    struct cart *cart = malloc(sizeof *cart);
    memset(cart, 0, sizeof *cart);
    check_out(cart);
    printf("%ld\n", total_of(cart));
    return 0;
}
END
printf '%s\n' '#include <stdlib.h>' 'int main(void) { char *p = malloc(20); free(p); return 0; }' >clean.c
try "the programs are compiled" sh -c 'gcc -w -O0 -g -o use use.c && gcc -w -O0 -g -o clean clean.c'

# trial WHERE PROGRAM: the first steps of a user.
trial() {
    where=$1 zguard=$2
    expect "$where: version" 0 '^zguard [0-9.]+ \([a-z0-9_]+, Swift [0-9.]+\)$' "$zguard" version
    expect "$where: doctor" 0 '^ok +self-test' "$zguard" doctor
    expect "$where: a program without a bug" 0 '^==zguard== no findings' "$zguard" run -- ./clean
    expect "$where: a use after free, with names" 139 'use-after-free' "$zguard" run --report report.jsonl --format json -- ./use
    expect "$where: the report has function and line" 0 'total_of.*use\.c:12' "$zguard" report report.jsonl
    expect "$where: … of the free and the allocation" 0 'check_out.*use\.c:10' "$zguard" report report.jsonl
    expect "$where: what is not there" 127 "cannot|not found" "$zguard" run -- ./nowhere
    rm -f report.jsonl
}

# page NAME WORD…: renders a manual page.
page() {
    name=$1
    shift
    command -v man >/dev/null || { echo "skipped $name: man is not installed"; return; }
    expect "$name" 0 'ZGUARD_OPTIONS' env MANWIDTH=80 LC_ALL=C.UTF-8 man "$@"
}

# pages WHERE PREFIX ZSH: checks manual page, completions and debugger scripts.
pages() {
    where=$1 prefix=$2
    page "$where: the manual page renders" -l "$prefix/share/man/man1/zguard.1.gz"
    try "$where: bash reads the completions" bash -c ". '$prefix/share/bash-completion/completions/zguard' && complete -p zguard"
    try "$where: completions for zsh and fish" test -s "$3" -a -s "$prefix/share/fish/vendor_completions.d/zguard.fish"
    try "$where: the debuggers' commands" test -s "$prefix/share/zguard/zguard_gdb.py" -a -s "$prefix/share/zguard/zguard_lldb.py"
}

# Runs zguard from the unpacked directory, from the moved directory, and through links to the program and the directory.
try "the archive is unpacked" tar -xJf "$archive"
trial "unpacked" "$PWD/$top/bin/zguard"
pages "unpacked" "$top" "$top/share/zsh/site-functions/_zguard"
try "licence and list of contents" test -s "$top/share/doc/zguard/LICENSE" -a -s "$top/share/doc/zguard/zguard.spdx.json"
mkdir -p "other place" links && mv "$top" moved
ln -s ../moved/bin/zguard links/zguard && ln -s zguard links/again && ln -s moved linked
expect "by a link to a link" 0 'no findings' links/again run -- ./clean
expect "by PATH" 0 'no findings' env PATH="$PWD/links:$PATH" zguard run -- ./clean
expect "in a linked directory" 0 'no findings' linked/bin/zguard run -- ./clean
mv moved "other place/moved"
expect "where no library can be named" 125 "blank or a colon" "other place/moved/bin/zguard" run -- ./clean
rm -r "other place"

# Tests an installation in a prefix that contains other files.
mkdir -p prefix/bin prefix/share/man/man1 && touch prefix/bin/other prefix/share/man/man1/other.1
try "unpacked over a prefix" tar -C prefix --strip-components=1 -xJf "$archive"
expect "from a prefix" 0 'no findings' prefix/bin/zguard run -- ./clean
expect "uninstalled from a prefix" 0 '^prefix/bin/other prefix/share/man/man1/other.1 $' \
    sh -c 'prefix/share/zguard/uninstall && find prefix ! -type d | LC_ALL=C sort | tr "\n" " "; test ! -e prefix/share/zguard'

[ -n "$package" ] || exit 0
# A root whose packages were only unpacked has no dpkg status.
depends=
[ -s /var/lib/dpkg/status ] || depends=--force-depends
try "the package is installed" dpkg $depends -i "$package"
trial "package" zguard
pages "package" /usr /usr/share/zsh/vendor-completions/_zguard
page "the package's page" zguard
try "the package is removed" dpkg -P zguard
expect "nothing is left" 0 '^0$' sh -c 'find /usr -name "*zguard*" | wc -l'
