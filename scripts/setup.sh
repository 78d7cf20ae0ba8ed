#!/usr/bin/env bash
# Prepares a clean clone so that the daemon can be started. Safe to run again at any time: it only does
# what is missing, and only one run works at a time. If nothing has changed, it ends at once. --tests
# also installs what only development and tests need: compilers, a Docker engine, a browser and so on.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/toolchain.sh"
cd "$root"

node_version=24.21.0
for_tests=false
[ "${1-}" != --tests ] || for_tests=true
service_policy=/usr/sbin/policy-rc.d
service_policy_mark='# Put here by Sandkasten set-up while it installs packages; remove at will.'

say() { echo "set-up: $*"; }
fail() {
  echo "set-up: $*" >&2
  exit 1
}

# Runs a command silently; its output is shown only if it fails.
quietly() {
  local log=$toolchain/setup.$BASHPID.log status=0
  "$@" >"$log" 2>&1 9>&- || status=$?
  [ "$status" = 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# Everything that set-up reads and writes, by name, size and time, and the programs that it looks for.
# If all of it is unchanged since the last set-up, there is nothing to do. Not every file needs to exist.
current_state() {
  local when package program
  while read -r when package program; do
    [ "$when" != start ] || [ "$program" = - ] || type -P "$program" || return
  done <scripts/apt-packages.txt
  find "$(type -P node)" scripts/{setup.sh,toolchain.sh,apt-packages.txt,page-tools.ts} README.md docs \
    package-lock.json package.json packages/*/package.json native/{Cargo.*,.cargo,*/Cargo.toml,*/src,bin} \
    packages/{dashboard,site}/{*.ts,*.html,src,dist} packages/sdk/src packages/agents/src/client \
    node_modules/.package-lock.json ! -name '*.test.ts' ! -name '*.partial' -printf '%p %s %T@\n' 2>/dev/null || true
}

is_ready() {
  local recorded
  recorded=$(cat "$toolchain/ready" 2>/dev/null) && [ "$(current_state)" = "$recorded" ]
}

take_lock() {
  [ "$(uname -s)" = Linux ] || fail "Sandkasten runs on Linux only, this is $(uname -s)."
  mkdir -p "$toolchain"
  exec 9>"$toolchain/setup.lock"
  if ! flock --nonblock 9; then
    say "waiting for another set-up in this directory"
    flock 9
  fi
}

is_installed() { # PACKAGE COMMAND
  if [ "$2" != - ]; then
    command -v "$2" >/dev/null
  elif command -v dpkg-query >/dev/null; then
    [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
  else
    true # Not Debian: assume that packages that cannot be checked are installed.
  fi
}

missing_packages() { # WHEN...
  local when package program
  while read -r when package program; do
    if [[ " $* " == *" $when "* ]] && ! is_installed "$package" "$program"; then
      echo "$package"
    fi
  done <scripts/apt-packages.txt
}

find_root_prefix() {
  if [ "$(id -u)" = 0 ]; then
    as_root=()
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    return 1
  fi
}

# Packages such as docker.io start a daemon on installation. Sandkasten's tests start their own, so
# Debian's service policy forbids the start.
forbid_service_starts() {
  if [ ! -e "$service_policy" ]; then
    printf '#!/bin/sh\n%s\nexit 101\n' "$service_policy_mark" |
      "${as_root[@]}" install -m 755 /dev/stdin "$service_policy"
  fi
  trap allow_service_starts EXIT
}

allow_service_starts() {
  if grep --quiet --no-messages --fixed-strings "$service_policy_mark" "$service_policy"; then
    "${as_root[@]}" rm -f "$service_policy"
  fi
}

apt_install() {
  quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
}

install_packages() { # WHEN...
  local required optional package
  required=$(missing_packages "$@" | xargs)
  optional=
  ! $for_tests || optional=$(missing_packages optional | xargs)
  # An optional package that was unavailable the last time is not requested every time.
  if [ "$optional" = "$(cat "$toolchain/optional-unavailable" 2>/dev/null)" ]; then
    optional=
  fi
  [ -n "$required$optional" ] || return 0

  if ! command -v apt-get >/dev/null || ! find_root_prefix; then
    [ -n "$required" ] || return 0
    fail "these packages are missing, and installing them needs root: $required" \
      "(on Debian or Ubuntu: sudo apt-get install $required)."
  fi

  say "installing packages: $(xargs <<<"$required $optional")"
  forbid_service_starts
  quietly "${as_root[@]}" apt-get update ||
    { [ -z "$required" ] || fail "apt-get update failed, so these are missing: $required"; }
  if [ -n "$required" ]; then
    # shellcheck disable=SC2086 # A list of names, meant to be split.
    apt_install $required || fail "apt-get could not install: $required"
  fi
  for package in $optional; do
    apt_install "$package" 2>/dev/null ||
      say "$package is not available here; tests that need it will be skipped"
  done
  allow_service_starts
  trap - EXIT
  ! $for_tests || missing_packages optional | xargs >"$toolchain/optional-unavailable"
}

# Node's name for this machine.
node_arch() {
  case $(uname -m) in
    x86_64) echo x64 ;;
    aarch64) echo arm64 ;;
    *) uname -m ;;
  esac
}

install_node() {
  local package staging
  if node_is_recent node; then
    return
  fi
  case $(node_arch) in
    x64 | arm64) package=node-linux-$(node_arch) ;;
    *) fail "Node $minimum_node is required, and there is no download for $(uname -m): install it and run this again." ;;
  esac
  say "installing Node $node_version in the project's folder"
  staging=$toolchain/node-$node_version.partial
  rm -rf "$staging" "$toolchain/node-$node_version"
  mkdir -p "$staging"
  # --ignore-scripts, because downloaded packages must not run code during set-up.
  quietly npm install --prefix "$staging" --ignore-scripts --no-save --no-audit --no-fund \
    "$package@$node_version" || fail "npm could not download $package@$node_version."
  mv "$staging" "$toolchain/node-$node_version"
  mkdir -p "$toolchain/bin"
  ln -sfn "../node-$node_version/node_modules/$package/bin/node" "$toolchain/bin/node"
  PATH=$toolchain/bin:$PATH
  hash -r
  node_is_recent node || fail "the downloaded Node does not run: $toolchain/bin/node --version"
}

install_dependencies() {
  # Optional packages are frameworks that the tools for agents can be used with, and what only the tools
  # of development need on this platform.
  local stamp=$toolchain/npm.stamp state installed omit=(--omit=dev --omit=optional)
  ! $for_tests || omit=()
  state=$(
    node --version
    sha256sum package-lock.json package.json packages/*/package.json
  )
  # What tests need includes everything that a daemon needs.
  installed=$(cat "$stamp" 2>/dev/null) || true
  if [ -e node_modules/.package-lock.json ] &&
    { [ "$installed" = "$state" ] || [ "$installed" = "$state${omit[*]:+ ${omit[*]}}" ]; }; then
    return
  fi
  say "installing npm dependencies"
  rm -f "$stamp"
  # Not in .npmrc, which would keep `npm pack` from building the SDK.
  quietly npm ci --ignore-scripts "${omit[@]}" || fail "npm ci failed."
  printf '%s\n' "$state${omit[*]:+ ${omit[*]}}" >"$stamp"
}

# The dashboard, and the pages of /docs and /guide.
build_pages() {
  local page stale=()
  for page in dashboard site; do
    node "packages/$page/build.ts" --check || stale+=("$page")
  done
  [ ${#stale[@]} -gt 0 ] || return 0
  say "building the dashboard and the documentation"
  if [ -d node_modules/vite ]; then
    for page in "${stale[@]}"; do
      quietly node "packages/$page/build.ts" || fail "packages/$page could not be built."
    done
  else
    build_pages_apart "${stale[@]}"
  fi
}

# With tools that are fetched for it and removed again: a daemon does not need them.
build_pages_apart() { # PAGE...
  local page apart=$toolchain/pages
  rm -rf "$apart"
  node scripts/page-tools.ts "$apart"
  (cd "$apart" && quietly npm ci --ignore-scripts) || fail "npm could not install the tools that build the pages."
  for page in "$@"; do
    quietly node "$apart/packages/$page/build.ts" || fail "packages/$page could not be built."
    rm -rf "packages/$page/dist"
    mv "$apart/packages/$page/dist" "packages/$page/dist"
  done
  rm -rf "$apart"
}

# A binary that requests an interpreter is dynamic, and would not start in an image without glibc.
require_static() {
  local headers
  headers=$(readelf --program-headers --wide "$1") || fail "$1 is not an executable."
  if grep --quiet INTERP <<<"$headers"; then
    fail "$1 is not static, so it would not run in every image: see native/.cargo/config.toml."
  fi
}

# One checksum of the sources of the binaries. It is kept next to them, in native/bin/source, and
# published with them.
native_source() {
  (cd native && find Cargo.* .cargo */Cargo.toml */src -type f -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1)
}

# Programs already built from these sources, here or by a release, need no compiler.
use_built_native() { # SOURCE
  local directory
  for directory in native/bin "node_modules/@sandkasten/native-linux-$(node_arch)/bin"; do
    if [ -x "$directory/runner" ] && [ -x "$directory/launcher" ] &&
      [ "$(cat "$directory/source" 2>/dev/null)" = "$1" ]; then
      [ "$directory" = native/bin ] || install_native "$directory" "$1"
      return 0
    fi
  done
  return 1
}

# By rename, because a running sandbox may still execute the old file.
install_native() { # DIRECTORY SOURCE
  local name
  mkdir -p native/bin
  rm -f native/bin/source
  for name in runner launcher; do
    if ! cmp --silent "$1/$name" "native/bin/$name"; then
      cp "$1/$name" "native/bin/$name.partial"
      mv "native/bin/$name.partial" "native/bin/$name"
    fi
  done
  echo "$2" >native/bin/source
}

build_native() {
  local name target source
  source=$(native_source)
  target=$(uname -m)-unknown-linux-gnu
  command -v cargo >/dev/null ||
    fail "the runner and the launcher must be built, but Rust is missing. Install cargo" \
      "$(sed -n 's/^rust-version = "\(.*\)"/\1/p' native/Cargo.toml) or newer (rustup has it), or unpack" \
      "@sandkasten/native-linux-* of the same version into native, and run this again."
  say "building the runner and the launcher"
  # Flags from the environment would replace those that make the binaries static.
  (
    cd native
    unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS CARGO_BUILD_TARGET
    quietly cargo build --release --locked --target "$target" --target-dir target
  ) || fail "cargo could not build the native binaries."
  for name in runner launcher; do
    require_static "native/target/$target/release/$name"
  done
  install_native "native/target/$target/release" "$source"
}

# The packages that the Python example needs, in a separate environment.
install_python_packages() {
  local environment=$toolchain/python requirements=tests/python/requirements.txt
  if cmp --silent "$requirements" "$environment/installed.txt"; then
    return
  fi
  say "installing Python packages for the tests"
  rm -rf "$environment"
  if quietly python3 -m venv "$environment" 2>/dev/null &&
    quietly "$environment/bin/pip" install --disable-pip-version-check --requirement "$requirements"; then
    cp "$requirements" "$environment/installed.txt"
  else
    say "the Python packages cannot be installed; the Python example test will be skipped"
  fi
}

if ! $for_tests && is_ready; then
  say "ready"
  exit
fi
take_lock
rm -f "$toolchain/ready"
wanted=(start)
needs_build=true
! use_built_native "$(native_source)" || needs_build=false
! $needs_build || wanted+=(build)
! $for_tests || wanted+=(build tests)
install_packages "${wanted[@]}"
# Compiling needs a processor, downloading mostly the network, so they run in parallel.
native=
if $needs_build; then
  build_native &
  native=$!
  trap wait EXIT
fi
install_node
install_dependencies
build_pages
! $for_tests || install_python_packages
[ -z "$native" ] || wait "$native"
current_state >"$toolchain/ready.partial"
mv "$toolchain/ready.partial" "$toolchain/ready"
say "ready"
