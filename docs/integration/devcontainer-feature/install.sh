#!/bin/sh
# Installs zguard in a development container; devcontainer-feature.json says what the variables VERSION, RELEASE and PREFIX are.
set -eu
version=${VERSION:-1.0.0}
release=${RELEASE:-$(cd "$(dirname "$0")" && pwd)}
prefix=${PREFIX:-/usr/local}
archive=zguard-$version-linux-$(uname -m).tar.xz

fail() {
    echo "zguard feature: error: $1" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "only the superuser can install it"
packages=
command -v xz >/dev/null || packages="$packages xz-utils"
case $release in
http://*) fail "the address '$release' is not https" ;;
https://*) command -v curl >/dev/null || packages="$packages ca-certificates curl" ;;
esac
if [ -n "$packages" ]; then
    command -v apt-get >/dev/null || fail "these packages are missing:$packages"
    apt-get update
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages
    rm -rf /var/lib/apt/lists/*
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "$archive" SHA256SUMS; do
    case $release in
    https://*) curl -fsSL -o "$work/$file" "$release/$file" || fail "cannot load $release/$file" ;;
    *) cp "$release/$file" "$work/$file" || fail "there is no $file in $release" ;;
    esac
done
(cd "$work" && grep -F " $archive" SHA256SUMS | sha256sum -c -) || fail "$archive is not what SHA256SUMS says"
mkdir -p "$prefix"
tar -C "$prefix" --strip-components=1 --no-same-owner -xJf "$work/$archive"
"$prefix/bin/zguard" version
