#!/usr/bin/env bash
# What a new user runs: set-up, then a daemon that has proved that it works, with the agents of
# examples/agents. Arguments go to `sandkasten start`; the last --agents-dir counts.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/toolchain.sh"

bash "$root/scripts/setup.sh"
exec "$root/packages/cli/bin/sandkasten" start --agents-dir "$root/examples/agents" "$@"
