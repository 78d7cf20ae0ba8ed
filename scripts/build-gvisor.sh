#!/usr/bin/env bash
# Builds gVisor's runsc for the tests of strong isolation, because distributions have old releases
# or none. The result is kept outside the project, so a machine builds it once.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/toolchain.sh"

version=20260905.0
module=gvisor.dev/gvisor/runsc@v0.0.0-20260905035102-160fafc42237
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sandkasten/gvisor-$version

if [ ! -x "$cache/runsc" ]; then
  if ! command -v go >/dev/null; then
    echo "set-up: Go is not installed, so gVisor cannot be built; its tests will be skipped"
    exit 0
  fi
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9
  if [ ! -x "$cache/runsc" ]; then
    echo "set-up: building gVisor $version, which takes a few minutes"
    GOBIN=$cache/partial CGO_ENABLED=0 go install -trimpath \
      -ldflags "-s -w -X gvisor.dev/gvisor/runsc/version.version=release-$version" \
      "$module" 9>&-
    mv "$cache/partial/runsc" "$cache/runsc"
    rmdir "$cache/partial"
  fi
fi
mkdir -p "$toolchain/runtimes"
ln -sfn "$cache/runsc" "$toolchain/runtimes/runsc"
