# Puts the Node that the project needs first in PATH. Sourced by the other scripts.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
toolchain=$root/.toolchain
minimum_node=24.9

# Asking Node for its version takes longer than the rest of a script, so a script that runs another one
# passes on which Node it has asked.
node_is_recent() { # NODE
  local path version major minor
  path=$(type -P "$1") || return 1
  [ "$path" != "${RECENT_NODE-}" ] || return 0
  version=$("$path" --version 2>/dev/null) || return 1
  IFS=. read -r major minor _ <<<"${version#v}"
  ((major > ${minimum_node%.*} || major == ${minimum_node%.*} && minor >= ${minimum_node#*.})) || return 1
  export RECENT_NODE=$path
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
