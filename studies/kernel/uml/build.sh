#!/usr/bin/env bash
# Builds user-mode Linux from a folder of kernel sources, with a timer tick of 250 Hz as distributions have it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sources=${1:?usage: build.sh SOURCES, a folder of Linux sources (6.16 or newer)}
cd "$sources"
sed -i '/^config HZ/,/default/ s/default 100/default 250/' arch/um/Kconfig
make ARCH=um allnoconfig KCONFIG_ALLCONFIG="$here/config"
make ARCH=um -j "$(nproc)" linux
echo "built $PWD/linux"
