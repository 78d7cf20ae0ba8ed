/**
 * Builds a root file system from named packages of Debian, Python and npm, without a registry.
 *
 * SECURITY: the builder runs as root on the administrator's machine, so no code of a package index
 * runs during the build: Debian's packages are signed, wheels are only unpacked (`--only-binary`), and
 * npm runs no scripts (threat: hostile archives and images; guarded by build-standard.test.ts).
 */
import { readFile } from "node:fs/promises";
import { quoted } from "../exec-options.ts";
import { CliFailure } from "../failure.ts";
import { runTool } from "./run-tool.ts";
import type { StandardImage } from "./standard-images.ts";

export interface StandardBuild {
  readonly image: StandardImage;
  /** The tar archive to write. */
  readonly archive: string;
  /** The Debian release, as in `bookworm`. */
  readonly suite: string;
  /** The source of Debian's packages; the default mirror when absent. */
  readonly mirror?: string;
  readonly onLine: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Documentation and caches, which programs do not need. */
const LEFT_OUT = [
  "/usr/share/doc/*",
  "/usr/share/info/*",
  "/usr/share/man/*",
  "/usr/share/locale/*",
];

export async function buildStandard(build: StandardBuild): Promise<void> {
  const { image, archive, suite, mirror, onLine, signal } = build;
  await runTool({
    program: "mmdebstrap",
    args: [
      "--variant=minbase",
      "--format=tar",
      `--include=${image.debian.join(",")}`,
      ...LEFT_OUT.map((path) => `--dpkgopt=path-exclude=${path}`),
      ...hooks(image).map((hook) => `--customize-hook=${hook}`),
      suite,
      archive,
      ...(mirror === undefined ? [] : [mirror]),
    ],
    hint: "Install it with `apt-get install mmdebstrap`, and run this as root.",
    onLine,
    signal,
  });
}

/** Additions to Debian's packages: shell commands with the new root as `$1`. */
export function hooks({ pip, npm }: StandardImage): readonly string[] {
  return [...(pip.length === 0 ? [] : [pipHook(pip)]), ...(npm.length === 0 ? [] : npmHooks(npm))];
}

/** The machine's pip downloads for the image's Python. Packages go where Debian's Python looks first. */
function pipHook(packages: readonly string[]): string {
  const platform = process.arch === "arm64" ? "aarch64" : "x86_64";
  const platforms = ["manylinux2014", "manylinux_2_28", "manylinux_2_27", "manylinux_2_17"];
  const words = [
    "python3 -m pip install --quiet --no-compile --no-cache-dir --root-user-action=ignore",
    "--only-binary=:all: --implementation=cp",
    '--python-version "$version" --abi "cp$(echo "$version" | tr -d .)" --abi abi3 --abi none',
    ...platforms.map((name) => `--platform ${name}_${platform}`),
    '--target "$packages"',
    ...packages.map(quoted),
  ];
  return [
    "set -e",
    'version=$(cd "$1/usr/lib" && ls -d python3.[0-9]* | head -n 1 | sed s/python//)',
    'packages="$1/usr/local/lib/python$version/dist-packages"',
    words.join(" "),
    // pip installs programs next to the packages, with the Python that pip itself runs on.
    'if [ -d "$packages/bin" ]',
    'then sed -i "1s|^#!.*|#!/usr/bin/python3|" "$packages"/bin/*',
    'mv "$packages"/bin/* "$1/usr/local/bin/"',
    'rmdir "$packages/bin"',
    "fi",
  ].join("; ");
}

function npmHooks(packages: readonly string[]): readonly string[] {
  const install =
    'npm install --global --ignore-scripts --no-audit --no-fund --no-update-notifier --prefix "$1/usr/local"';
  const link = 'ln -sf ../lib/node_modules/node-linux-*/bin/node "$1/usr/local/bin/node"';
  return [`${install} ${packages.map(quoted).join(" ")}`, `set -e; cd "$1/usr/local/bin"; ${link}`];
}

/** This machine's suite if it runs Debian, so its keys match; otherwise a stable one. */
export async function usualSuite(osRelease = "/etc/os-release"): Promise<string> {
  const text = await readFile(osRelease, "utf8").catch(() => "");
  const value = (name: string): string | undefined =>
    new RegExp(`^${name}="?([a-z]+)"?$`, "m").exec(text)?.[1];
  return value("ID") === "debian" ? (value("VERSION_CODENAME") ?? "bookworm") : "bookworm";
}

/** Fails before anything is downloaded if this user cannot build. */
export function requireRoot(isRoot: boolean): void {
  if (isRoot) return;
  throw new CliFailure("Building an image needs root: the files in it belong to several users.", {
    hint: "Run it with sudo. SANDKASTEN_URL and SANDKASTEN_API_KEY name the daemon that gets the image.",
    code: "UNSUPPORTED",
  });
}
