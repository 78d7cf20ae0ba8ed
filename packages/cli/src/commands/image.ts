/** `sandkasten image`: the images that sandboxes are created from. */
import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import type { ImageInfo } from "@sandkasten/sdk";
import { type Command, Option } from "commander";
import type { Cli } from "../cli.ts";
import { requireReadable } from "../local-failure.ts";
import { hinting } from "../report-failure.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { makeProgress } from "../output/progress.ts";
import { addBuildCommand, addBuildStandardCommand } from "./image-build.ts";
import { waiting } from "../output/waiting.ts";
import { type Column, printTable } from "../output/table.ts";
import { formatBytes, formatMoment } from "../output/units.ts";

const ADMIN_HINT = "Use an administrator's key with SANDKASTEN_API_KEY or --api-key.";

interface BackendOption {
  readonly backend?: string;
}

/** Every backend has separate images. */
function addBackendOption(command: Command): Command {
  return command.option(
    "--backend <name>",
    "backend that stores the images (default: the daemon's)",
  );
}

export function addImageCommand(program: Command, cli: Cli): void {
  const image = program
    .command("image")
    .summary("list, build, pull and delete images")
    .description("Images: the root file systems that sandboxes are created from.");
  addList(image, cli);
  addPull(image, cli);
  addImport(image, cli);
  addBuildCommand(image, cli);
  addBuildStandardCommand(image, cli);
  addRemove(image, cli);
  addCollect(image, cli);
}

function addList(image: Command, cli: Cli): void {
  const command = image.command("ls").summary("list images").description("Lists the local images.");
  addBackendOption(command).action(async ({ backend }: BackendOption) => {
    const client = await cli.connect();
    const images = await client.images.list({ backend, signal: cli.interrupts.signal });
    if (cli.wantsJson()) return cli.out.line(plainJson(images, 2));
    await printTable(cli.out, columns(Date.now()), images);
  });
}

function addPull(image: Command, cli: Cli): void {
  const command = image
    .command("pull")
    .summary("pull an image from a registry")
    .description("Pulls an image from a registry and unpacks it.")
    .argument("<reference>", "name of the image, as in python:3.12-slim");
  addBackendOption(command).action(async (reference: string, { backend }: BackendOption) => {
    const client = await cli.connect();
    await hinting(
      {
        INVALID_IMAGE:
          "Check the name and the registry; the administrator allows registries in images.registries.",
      },
      () =>
        showImport(cli, reference, (onProgress) =>
          client.images.pull(reference, { backend, onProgress, signal: cli.interrupts.signal }),
        ),
    );
  });
}

function addImport(image: Command, cli: Cli): void {
  const command = image
    .command("import")
    .summary("import an image from an archive")
    .description("Imports an image from a local tar archive or from stdin.")
    .argument("<reference>", "name to give to the image")
    .argument("<archive>", "tar archive, plain or compressed; - for stdin")
    .addOption(
      new Option(
        "--format <format>",
        "`rootfs`: the files themselves. `oci-archive`: as written by skopeo, podman and docker buildx",
      )
        .choices(["rootfs", "oci-archive"])
        .default("rootfs"),
    );
  addBackendOption(command).action(
    async (
      reference: string,
      archive: string,
      { format, backend }: BackendOption & { readonly format: "rootfs" | "oci-archive" },
    ) => {
      const path = resolve(cli.host.workingDirectory, archive);
      if (archive !== "-") await requireReadable(archive, path);
      const client = await cli.connect();
      const source = archive === "-" ? cli.host.stdin : createReadStream(path);
      await hinting(
        {
          INVALID_IMAGE:
            "Check the archive, the name and --format: `rootfs` is for a tar of the files themselves, `oci-archive` for one with layers.",
        },
        () =>
          showImport(cli, reference, (onProgress) =>
            client.images.import(reference, source, {
              format,
              backend,
              onProgress,
              signal: cli.interrupts.signal,
            }),
          ),
      );
    },
  );
}

function addRemove(image: Command, cli: Cli): void {
  const command = image
    .command("rm")
    .summary("remove images")
    .description("Deletes images by name. `gc` then frees their disk space.")
    .argument("<reference...>", "names of the images");
  addBackendOption(command).action(
    async (references: readonly string[], { backend }: BackendOption) => {
      const client = await cli.connect();
      for (const reference of references) {
        await hinting(
          {
            INVALID_IMAGE: "`sandkasten image ls` shows the images there are.",
            CONFLICT: "End the sessions that use it; `sandkasten ls` shows them.",
            PERMISSION_DENIED: ADMIN_HINT,
          },
          () => client.images.remove(reference, { backend, signal: cli.interrupts.signal }),
        );
        if (!cli.wantsJson()) await cli.out.line(plainText(reference));
      }
      if (cli.wantsJson()) await cli.out.line(plainJson(references, 2));
    },
  );
}

function addCollect(image: Command, cli: Cli): void {
  const command = image
    .command("gc")
    .summary("free the disk space of unused images")
    .description(
      "Frees the disk space of unused image data now, instead of within ten minutes. Requires an administrator's key.",
    );
  addBackendOption(command).action(async ({ backend }: BackendOption) => {
    const client = await cli.connect();
    const { signal } = cli.interrupts;
    const collected = await hinting({ PERMISSION_DENIED: ADMIN_HINT }, () =>
      waiting(cli, "Freeing disk space", () => client.images.collectGarbage({ backend, signal })),
    );
    if (cli.wantsJson()) return cli.out.line(plainJson(collected, 2));
    const { removed, freedBytes } = collected;
    await cli.out.line(
      cli.out.isTerminal
        ? `Removed ${removed}, freed ${formatBytes(freedBytes)}.`
        : `${removed}\t${freedBytes}`,
    );
  });
}

async function showImport(
  cli: Cli,
  reference: string,
  act: (
    onProgress: (progress: {
      readonly phase: string;
      readonly done: number;
      readonly total?: number | undefined;
    }) => void,
  ) => Promise<ImageInfo>,
): Promise<void> {
  let info: ImageInfo;
  {
    await using progress = makeProgress(cli.err, !cli.wantsJson());
    info = await act(({ phase, done, total }) => {
      void progress.show(`${phase} ${reference}`, done, total);
    });
  }
  if (cli.wantsJson()) return cli.out.line(plainJson(info, 2));
  await cli.out.line(`${plainText(info.reference)}\t${plainText(info.digest)}`);
}

function columns(nowMs: number): readonly Column<ImageInfo>[] {
  return [
    { head: "IMAGE", value: ({ reference }) => reference, elastic: true },
    { head: "SOURCE", value: ({ source }) => source },
    {
      head: "SIZE",
      value: ({ sizeBytes }) => String(sizeBytes),
      shown: ({ sizeBytes }) => formatBytes(sizeBytes),
    },
    {
      head: "CREATED",
      value: ({ createdAt }) => createdAt,
      shown: ({ createdAt }) => formatMoment(createdAt, nowMs),
    },
    {
      head: "DIGEST",
      value: ({ digest }) => digest,
      shown: ({ digest }) => digest.slice(0, "sha256:".length + 12),
    },
    { head: "SHARED", value: ({ shared }) => (shared === undefined ? "" : shared ? "yes" : "no") },
  ];
}
