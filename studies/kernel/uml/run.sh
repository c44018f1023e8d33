#!/usr/bin/env bash
# Runs a command in user-mode Linux with virtual time: root, all files of this machine, and no time for computation.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
linux=${1:?usage: run.sh LINUX COMMAND..., where LINUX is the program that build.sh has built}
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    declare -px PATH
    printf 'cd %q\n' "$PWD"
    printf '%q ' "$@"
} >"$work/command"
# User-mode Linux keeps its socket in HOME. A system call of seccomp costs half of one of ptrace. A system call is two
# processes that wake each other: on one processor, which CPU names, that takes a sixth of the time.
HOME="$work" taskset -c "${CPU:-$(($(nproc) - 1))}" \
    "$linux" mem="${MEMORY:-3G}" root=none rootfstype=hostfs rw init="$here/init.sh" work="$work" \
    time-travel=inf-cpu seccomp=on con=null con0=null,fd:1 >"$work/console" 2>&1 || true
if [ ! -e "$work/status" ]; then
    cat "$work/console" >&2
    echo "run.sh: the kernel did not start the command" >&2
    exit 1
fi
cat "$work/out"
cat "$work/err" >&2
exit "$(cat "$work/status")"
