#!/usr/bin/env bash
# What a newcomer runs: set-up, then a daemon that has proved that it works. Arguments go to the daemon.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

bash "$scripts/setup.sh"
exec "$scripts/../packages/cli/bin/sandkasten" start "$@"
