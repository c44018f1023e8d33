#!/bin/sh
# Builds everything up to the simulator for a browser: a target without files, sockets, threads or a clock. It uses the first
# compiler that has the target, rustup's or Debian's (package rustc-web), and skips where there is none.
set -eu

target=wasm32-unknown-unknown
cd "$(dirname "$0")/.."
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Whether version $1 is at least $2.
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

found="no compiler"
for compiler in "${RUSTC:-rustc}" /usr/bin/rustc; do
    command -v "$compiler" >/dev/null || continue
    version=$("$compiler" --version | cut -d ' ' -f 2)
    if [ ! -d "$("$compiler" --print sysroot)/lib/rustlib/$target" ]; then
        found="rustc $version without it"
    elif ! at_least "$version" "$needed"; then
        found="rustc $version with it, but Rust $needed is needed"
    else
        RUSTC=$compiler cargo build --quiet --target "$target" -p narrows-sim
        echo "$target: built with rustc $version"
        exit 0
    fi
done
echo "skipped: $target is not installed ($found); 'rustup target add $target' or Debian's rustc-web may have it"
