/**
 * Builds a Dockerfile on this machine, with buildah or a Docker engine, into an archive to import.
 *
 * SECURITY: a Dockerfile and its base image are code that others may have written (threat: hostile
 * archives and images). With buildah its steps run in a runc container with a user namespace, a seccomp
 * filter, few capabilities and no network. buildah itself runs in a mount namespace with none of the
 * machine's files except its programs, the context (read-only) and its own storage: Debian's version
 * follows links of a context or of a base image in `RUN --mount`, and would otherwise expose the
 * machine's files to the build. Guarded by tests/e2e/image-build.test.ts.
 */
import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CliFailure } from "../failure.ts";
import { runTool } from "./run-tool.ts";
import { squashedArchive } from "./squashed-archive.ts";

export interface DockerfileBuild {
  /** Absolute. */
  readonly context: string;
  /** Relative to the context, and inside it. */
  readonly dockerfile: string;
  readonly buildArgs: readonly string[];
  readonly target?: string;
  readonly network: "none" | "host";
  /** A directory for the archive, `image.tar`. */
  readonly out: string;
  /** A directory for buildah's images. */
  readonly storage: string;
  readonly onLine: (line: string) => void;
  readonly signal: AbortSignal;
}

const ARCHIVE = "image.tar";
/** Host ids that belong to no user and no sandbox. */
const FIRST_ID = 1_879_048_192;
const ID_COUNT = 65_536;
const ID_MAP = `0:${FIRST_ID}:${ID_COUNT}`;
const TAG = "localhost/sandkasten-build:latest";
const BUILDAH = ["buildah", "--root=/storage", "--runroot=/run/buildah"];
/** Exports the finished image: its files as a tar, and its configuration. */
const EXPORT = `
buildah() { command ${BUILDAH.join(" ")} "$@"; }
container=$(buildah from --pull-never ${TAG})
root=$(buildah mount "$container")
tar --create --file /out/rootfs.tar --directory "$root" --numeric-owner --owner-map=/out/ids --group-map=/out/ids .
buildah inspect --type image ${TAG} > /out/config.json
buildah rm "$container" > /dev/null
`;
const INSTALL =
  "Install it with `apt-get install buildah runc bubblewrap`, or use --builder docker.";

export async function buildWithBuildah(build: DockerfileBuild): Promise<string> {
  const { onLine, signal, network } = build;
  const inView = (...args: readonly string[]): Promise<void> =>
    runTool({ program: "bwrap", args: [...view(build), ...args], hint: INSTALL, onLine, signal });
  await inView(
    ...BUILDAH,
    "bud",
    "--isolation=oci",
    "--runtime=runc",
    `--network=${network}`,
    `--userns-uid-map=${ID_MAP}`,
    `--userns-gid-map=${ID_MAP}`,
    "--cap-drop=CAP_MKNOD,CAP_NET_RAW,CAP_AUDIT_WRITE,CAP_SYS_CHROOT",
    ...build.buildArgs.map((text) => `--build-arg=${text}`),
    ...(build.target === undefined ? [] : [`--target=${build.target}`]),
    `--file=/context/${build.dockerfile}`,
    `--tag=${TAG}`,
    "/context",
  );
  const place = (name: string): string => join(build.out, name);
  await writeFile(place("ids"), idsInside());
  await inView("sh", "-euc", EXPORT);
  await squashedArchive({
    rootfs: place("rootfs.tar"),
    config: configOf(await readFile(place("config.json"), "utf8")),
    directory: place("layout"),
    archive: place(ARCHIVE),
    signal,
  });
  return place(ARCHIVE);
}

/** The configuration in the output of `buildah inspect`. */
function configOf(inspected: string): unknown {
  const { OCIv1: image } = JSON.parse(inspected) as { OCIv1?: { config?: unknown } };
  return image?.config ?? {};
}

/** buildah's own archives contain host ids of the user namespace; the image needs the ids inside. */
function idsInside(): string {
  return Array.from({ length: ID_COUNT }, (_, id) => `+${FIRST_ID + id} +${id}\n`).join("");
}

/** The part of the machine that buildah sees. */
function view({ context, out, storage }: DockerfileBuild): readonly string[] {
  const links = ["bin", "sbin", "lib", "lib64"].flatMap((name) => [
    "--symlink",
    `usr/${name}`,
    `/${name}`,
  ]);
  const readable = ["containers", "alternatives", "ssl", "passwd", "group"];
  // buildah, not the steps, resolves names and accesses registries.
  readable.push("resolv.conf", "hosts", "nsswitch.conf");
  return [
    "--die-with-parent",
    "--unshare-ipc",
    "--unshare-uts",
    "--cap-add",
    "ALL",
    "--clearenv",
    "--setenv",
    "PATH",
    "/usr/sbin:/usr/bin",
    "--setenv",
    "HOME",
    "/run",
    "--setenv",
    "TMPDIR",
    "/var/tmp",
    "--ro-bind",
    "/usr",
    "/usr",
    ...links,
    "--dev-bind",
    "/dev",
    "/dev",
    // A partly hidden /proc could not be mounted again in a step's user namespace.
    "--bind",
    "/proc",
    "/proc",
    "--bind",
    "/sys",
    "/sys",
    "--tmpfs",
    "/tmp",
    "--tmpfs",
    "/run",
    "--tmpfs",
    "/var/tmp",
    ...readable.flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]),
    "--bind",
    storage,
    "/storage",
    "--ro-bind",
    context,
    "/context",
    "--bind",
    out,
    "/out",
  ];
}

/** How long an engine may take to forget the name of a finished build. */
const FORGET_MS = 30_000;

/** The engine isolates the steps of a build by its own rules. */
export async function buildWithDocker(
  build: DockerfileBuild,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const { onLine } = build;
  const docker = (signal: AbortSignal, ...args: readonly string[]): Promise<void> =>
    runTool({
      program: "docker",
      args,
      hint: "Install Docker's command line, or use --builder buildah.",
      env: environment,
      onLine,
      signal,
    });
  const archive = join(build.out, ARCHIVE);
  // A name that no other build has: several may use the engine at a time.
  const name = `sandkasten-build:${randomUUID()}`;
  await docker(
    build.signal,
    "build",
    // The classic builder would otherwise keep the container of a step that failed.
    "--force-rm",
    `--network=${build.network}`,
    ...build.buildArgs.map((text) => `--build-arg=${text}`),
    ...(build.target === undefined ? [] : [`--target=${build.target}`]),
    `--file=${join(build.context, build.dockerfile)}`,
    `--tag=${name}`,
    build.context,
  );
  try {
    await docker(build.signal, "save", "--output", archive, name);
  } finally {
    // Even after Ctrl-C. Layers that other images have stay.
    await docker(AbortSignal.timeout(FORGET_MS), "image", "rm", name);
  }
  return archive;
}

/** A path inside the context, relative to it. */
export function insideContext(dockerfile: string): string {
  if (!dockerfile.startsWith("/") && !dockerfile.split("/").includes("..")) return dockerfile;
  throw new CliFailure(`${dockerfile} is not inside the context.`, {
    hint: "Name a file inside the build context, relative to it.",
    code: "USAGE",
    exitCode: 2,
  });
}
