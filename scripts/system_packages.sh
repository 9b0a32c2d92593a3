#!/bin/sh
# Makes sure that cmake, make and a C++ compiler are there: the planner behind ALFWorld is built from source by pip.
set -eu
missing=""
command -v cmake >/dev/null 2>&1 || missing="$missing cmake"
command -v g++ >/dev/null 2>&1 || missing="$missing g++"
command -v make >/dev/null 2>&1 || missing="$missing make"
[ -n "$missing" ] || exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of names on purpose
    apt-get install -y -qq --no-install-recommends $missing
else
    echo "Missing:$missing. Install them first, for example: sudo apt-get install$missing" >&2
    exit 1
fi
