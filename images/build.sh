#!/usr/bin/env bash
# Builds the images: `images/build.sh [options] [base|python|node|daemon]...`, by default all of them.
# Works with the classic builder and with BuildKit, and needs the network only for what the base images
# lack. See `--help`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/toolchain.sh"
images=$root/images

say() { echo "images: $*"; }
fail() {
  echo "images: $*" >&2
  exit 1
}

usage() {
  cat <<'TEXT'
Usage: images/build.sh [options] [NAME]... [-- OPTION OF docker build...]

NAME is base, python, node (sandbox-runtime:NAME) or daemon (sandkasten:latest).
Without a name, it builds all four. python and node are built from sandbox-runtime:base.

  --engine HOST        the engine that builds, as in unix:///run/docker.sock (default: DOCKER_HOST)
  --base IMAGE         the image that base is built from (default: ubuntu:24.04)
  --node-image IMAGE   the source of Node for the daemon and the node image
                       (default: node:24-bookworm-slim)
  --help               this text
TEXT
}

parse_arguments() {
  base=ubuntu:24.04
  node_image=node:24-bookworm-slim
  names=()
  more=()
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h)
        usage
        exit 0
        ;;
      --engine | --base | --node-image)
        [ $# -ge 2 ] || fail "$1 needs a value; --help shows how."
        case $1 in
          --engine) export DOCKER_HOST=$2 ;;
          --base) base=$2 ;;
          --node-image) node_image=$2 ;;
        esac
        shift 2
        ;;
      --)
        shift
        more=("$@")
        break
        ;;
      base | python | node | daemon)
        names+=("$1")
        shift
        ;;
      *) fail "there is no image or option \"$1\"; --help shows which there are." ;;
    esac
  done
  [ ${#names[@]} -gt 0 ] || names=(base python node daemon)
  # The base comes first, because the others are built from it.
  mapfile -t names < <(printf '%s\n' "${names[@]}" | sort --unique)
}

check_tools() {
  local engine machine
  [ -x "$root/native/bin/runner" ] || fail "native/bin/runner is missing: run \`npm run setup\` first."
  command -v docker >/dev/null || fail "docker is missing: install Docker's command line."
  engine=$(docker version --format '{{.Server.Arch}}') ||
    fail "no Docker engine answers at ${DOCKER_HOST:-the usual place}; name another with --engine."
  case $(uname -m) in
    x86_64) machine=amd64 ;;
    aarch64) machine=arm64 ;;
    *) machine=$(uname -m) ;;
  esac
  [ "$engine" = "$machine" ] ||
    fail "the runner is built for $machine, but the engine runs on $engine: build on a machine like the engine's."
}

# The context of an image is assembled in a separate directory, so nothing else of the project is sent
# to the engine.
stage() { # NAME DIRECTORY
  cp "$images/$1/Dockerfile" "$2"
  case $1 in
    base) cp "$images/base/install-packages" "$root/native/bin/runner" "$2" ;;
    daemon) stage_daemon "$2" ;;
  esac
}

# The npm packages are the installed ones without development dependencies: the versions that the tests
# ran with, without access to a registry. None of them has native parts or TypeScript that Node would
# run. Engines read a single archive much faster. The agent service and its dependencies, twice the size
# of everything else, are left out; its client is included, so the command line can use a service on
# another machine.
stage_daemon() { # DIRECTORY
  local app=$staging/app list
  install -D "$images/daemon/healthcheck.mjs" "$app/healthcheck.mjs"
  install -D "$root/native/bin/runner" "$app/native/bin/runner"
  list=$(cd "$root" && npm ls --omit=dev --omit=optional --all --parseable --workspace packages/cli 2>/dev/null) ||
    fail "the installed npm packages are not those of package-lock.json: run \`npm run setup\` first."
  (
    cd "$root"
    sed -n "s|^$root/||p" <<<"$list" |
      tar --create --exclude={'*.ts','*.[cm]ts','*.map','*.md',test,tests,docs,example,examples,benchmark,benchmarks} --files-from=-
    tar --create --exclude='*.test.ts' --exclude=testing packages/{cli,daemon,protocol,sdk,telemetry}/{package.json,src} \
      node_modules/@sandkasten/agents packages/agents/{package.json,src/client}
  ) | tar --extract --ignore-zeros --directory "$app"
  tar --create --file "$1/app.tar" --owner=0 --group=0 --mode=u=rwX,go=rX --directory "$app" .
}

build() { # NAME TAG DIRECTORY
  local arguments=()
  case $1 in
    base) arguments=(--build-arg "BASE=$base") ;;
    node) arguments=(--build-arg "NODE_IMAGE=$node_image") ;;
    daemon) arguments=(--build-arg "BASE=$node_image") ;;
  esac
  docker build --tag "$2" "${arguments[@]}" "${more[@]}" "$3" >&2 ||
    fail "$2 could not be built; the engine's output is above."
}

tag_of() {
  if [ "$1" = daemon ]; then echo sandkasten:latest; else echo "sandbox-runtime:$1"; fi
}

parse_arguments "$@"
check_tools
staging=$(mktemp --directory)
trap 'rm -rf "$staging"' EXIT
for index in "${!names[@]}"; do
  name=${names[$index]}
  tag=$(tag_of "$name")
  say "building $tag ($((index + 1)) of ${#names[@]})"
  mkdir "$staging/$name"
  stage "$name" "$staging/$name"
  build "$name" "$tag" "$staging/$name"
  bytes=$(docker image inspect --format '{{.Size}}' "$tag")
  say "built $tag, $((bytes / 1000000)) MB"
done
