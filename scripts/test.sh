#!/usr/bin/env bash
# Everything that CI runs: set-up, then every check and every test. Works on a clean clone.
#   --torture      every test instead: every runtime, all rounds
#   --seed NUMBER  the random choices of an earlier run
set -uo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if ! bash "$scripts/setup.sh" --tests || ! bash "$scripts/build-gvisor.sh"; then
  echo "0 passed, 1 failed"
  exit 1
fi
exec bash "$scripts/with-toolchain.sh" node scripts/check.ts "$@"
