# Puts the Node that the project needs first in PATH. Sourced by the other scripts.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
toolchain=$root/.toolchain
minimum_node=24.9

node_is_recent() {
  local version
  version=$("$1" --version 2>/dev/null) || return 1
  version=${version#v}
  printf '%s\n' "$minimum_node" "$version" | sort --version-sort --check=quiet
}

if ! node_is_recent node && node_is_recent "$toolchain/bin/node"; then
  PATH=$toolchain/bin:$PATH
fi
# Debian keeps system tools outside an ordinary user's PATH, and rustup keeps cargo in the home
# directory, which non-login shells do not know.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
export PATH
# Node caches compiled code here; below the project, where no other user writes.
export NODE_COMPILE_CACHE=$toolchain/compile-cache
