#!/usr/bin/env bash
# Runs a command under the Node that the project needs: with-toolchain.sh COMMAND [ARGUMENT...]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/toolchain.sh"
cd "$root"

if ! node_is_recent node || [ ! -d node_modules ]; then
  echo "Sandkasten is not set up in $root: run 'npm run setup' first." >&2
  exit 1
fi
exec "$@"
