/** `sandkasten image build` and `image build-standard`: build images on this machine. */
import { createReadStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { makeDirectory } from "@sandkasten/daemon/make-directory";
import type { ImageInfo, SandboxClient } from "@sandkasten/sdk";
import { Argument, type Command, Option } from "commander";
import type { Cli } from "../cli.ts";
import { buildWithBuildah, buildWithDocker, insideContext } from "../images/build-dockerfile.ts";
import { buildStandard, requireRoot, usualSuite } from "../images/build-standard.ts";
import {
  STANDARD_IMAGES,
  STANDARD_NAMES,
  type StandardName,
  standardReference,
} from "../images/standard-images.ts";
import { requireDirectory, requireReadable } from "../local-failure.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { makeProgress } from "../output/progress.ts";
import { waiting } from "../output/waiting.ts";
import { collect } from "../session-options.ts";

interface StandardOptions {
  readonly suite?: string;
  readonly mirror?: string;
  readonly backend?: string;
}

export function addBuildStandardCommand(image: Command, cli: Cli): void {
  image
    .command("build-standard")
    .summary("build the images base, python and node")
    .description(
      "Builds the standard images on this machine from Debian, Python and npm packages, without an " +
        "image registry, and imports them into the daemon. Sessions then use them by the names base, " +
        "python and node. Needs root, mmdebstrap, pip for python, npm for node, and an " +
        "administrator's key to share the images with all keys.",
    )
    .addArgument(
      new Argument("[name...]", "images to build (default: all of them)").choices(STANDARD_NAMES),
    )
    .option(
      "--suite <name>",
      "Debian release (default: this machine's, or bookworm if it is not Debian)",
    )
    .option("--mirror <url>", "mirror for Debian packages (default: Debian's own)")
    .option(
      "--backend <name>",
      "backend that gets the image (default: the daemon's default backend)",
    )
    .action(async (given: readonly StandardName[], options: StandardOptions) => {
      requireRoot(cli.host.environment.isRoot);
      const client = await cli.connect();
      // Check that the daemon answers before building.
      await client.images.list({ backend: options.backend, signal: cli.interrupts.signal });
      const suite = options.suite ?? (await usualSuite());
      const names = given.length === 0 ? STANDARD_NAMES : given;
      const built: ImageInfo[] = [];
      for (const name of names)
        built.push(
          await inScratch(async (directory) => {
            const archive = join(directory, "image.tar");
            await waiting(cli, `Building ${name}`, (say) =>
              buildStandard({
                image: STANDARD_IMAGES[name],
                archive,
                suite,
                ...(options.mirror !== undefined && { mirror: options.mirror }),
                onLine: say,
                signal: cli.interrupts.signal,
              }),
            );
            const format = "rootfs";
            const { backend } = options;
            return send(cli, client, {
              reference: standardReference(name),
              archive,
              format,
              backend,
            });
          }),
        );
      if (cli.wantsJson()) await cli.out.line(plainJson(built, 2));
    });
}

interface BuildOptions {
  readonly tag: string;
  readonly file: string;
  readonly buildArg?: readonly string[];
  readonly target?: string;
  readonly network: "none" | "host";
  readonly builder: "buildah" | "docker";
  readonly storage?: string;
  readonly backend?: string;
}

export function addBuildCommand(image: Command, cli: Cli): void {
  image
    .command("build")
    .summary("build an image from a Dockerfile")
    .description(
      "Builds a Dockerfile on this machine and imports the image into the daemon. Build steps run in " +
        "containers without a network; --network host gives them this machine's network. " +
        "Base images come from a registry, or from `FROM scratch` with a root file system to ADD. With " +
        "buildah it needs root, and `RUN --mount` is refused.",
    )
    .argument("<context>", "directory with the Dockerfile and the files that it copies")
    .requiredOption("-t, --tag <name>", "name of the image, as in my-tools:1")
    .option("-f, --file <path>", "the Dockerfile, relative to the context", "Dockerfile")
    .option("--build-arg <name=value>", "value of an ARG; may be repeated", collect)
    .option("--target <stage>", "stage to build (default: the last one)")
    .addOption(
      new Option("--network <mode>", "network of RUN steps")
        .choices(["none", "host"])
        .default("none"),
    )
    .addOption(
      new Option("--builder <name>", "builder: buildah, or Docker's command line")
        .choices(["buildah", "docker"])
        .default("buildah"),
    )
    .option(
      "--storage <dir>",
      "directory where buildah keeps base images for later builds (default: none are kept)",
    )
    .option(
      "--backend <name>",
      "backend that gets the image (default: the daemon's default backend)",
    )
    .action(async (given: string, options: BuildOptions) => {
      const { workingDirectory, environment } = cli.host;
      const context = resolve(workingDirectory, given);
      const dockerfile = insideContext(options.file);
      await requireDirectory(given, context);
      await requireReadable(join(given, dockerfile), join(context, dockerfile));
      if (options.builder === "buildah") requireRoot(environment.isRoot);
      const client = await cli.connect();
      await client.images.list({ backend: options.backend, signal: cli.interrupts.signal });
      const built = await inScratch(async (directory) => {
        const storage =
          options.storage === undefined
            ? join(directory, "storage")
            : resolve(workingDirectory, options.storage);
        const out = join(directory, "out");
        for (const path of [storage, out]) await makeDirectory(path, 0o700);
        const archive = await waiting(cli, `Building ${options.tag}`, (say) => {
          const { network, target, buildArg: buildArgs = [] } = options;
          const build = {
            context,
            dockerfile,
            buildArgs,
            network,
            out,
            storage,
            onLine: say,
            ...(target !== undefined && { target }),
            signal: cli.interrupts.signal,
          };
          return options.builder === "buildah"
            ? buildWithBuildah(build)
            : buildWithDocker(build, environment.variables);
        });
        const { tag: reference, backend } = options;
        return send(cli, client, { reference, archive, format: "oci-archive", backend });
      });
      if (cli.wantsJson()) await cli.out.line(plainJson(built, 2));
    });
}

/** Images are large, and /tmp may be in memory: set TMPDIR to a place with enough space. */
async function inScratch<T>(use: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-build-"));
  try {
    return await use(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

interface Sent {
  readonly reference: string;
  readonly archive: string;
  readonly format: "rootfs" | "oci-archive";
  readonly backend: string | undefined;
}

async function send(cli: Cli, client: SandboxClient, sent: Sent): Promise<ImageInfo> {
  const { reference, archive, format, backend } = sent;
  await using progress = makeProgress(cli.err, !cli.wantsJson());
  const info = await client.images.import(reference, createReadStream(archive), {
    format,
    backend,
    onProgress: ({ phase, done, total }) =>
      void progress.show(`${phase} ${reference}`, done, total),
    signal: cli.interrupts.signal,
  });
  if (!cli.wantsJson())
    await cli.out.line(`${plainText(info.reference)}\t${plainText(info.digest)}`);
  return info;
}
