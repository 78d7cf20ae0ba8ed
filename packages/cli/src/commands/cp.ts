/** `sandkasten cp`: copies files and directories into, out of and between sessions. */
import type { SandboxClient } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import type { CopySource, CopyTarget } from "../copy/endpoint.ts";
import { localSource, localTarget } from "../copy/local-end.ts";
import { parsePlace, type Place } from "../copy/parse-place.ts";
import { sessionSource, sessionTarget } from "../copy/session-end.ts";
import { inputSource, outputTarget } from "../copy/stdio-end.ts";
import { UsageFailure } from "../failure.ts";
import { plainJson } from "../output/plain-text.ts";
import { makeProgress, type Progress } from "../output/progress.ts";

export function addCpCommand(program: Command, cli: Cli): void {
  program
    .command("cp")
    .summary("copy files into and out of sessions")
    .description(
      "Copies a file, or a directory with its contents. Write a path in a session as SESSION:path; " +
        "relative paths start at /workspace. - is stdin or stdout: the bytes of a file, or a directory " +
        "as a tar archive. As with cp -r, a source that is copied into an existing directory keeps its " +
        "name; `dir/.` copies the contents of dir.",
    )
    .usage("[options] <source> <target>")
    .argument("<source>", "SESSION:path, a path on this machine, or -")
    .argument("<target>", "SESSION:path, a path on this machine, or -")
    .action(async (source: string, target: string) => {
      const from = parsePlace(source);
      const to = parsePlace(target);
      if (from.kind !== "session" && to.kind !== "session")
        throw new UsageFailure(
          "Neither side is in a session.",
          "Write one of them as SESSION:path, as in `sandkasten cp notes.txt SESSION:notes.txt`.",
        );
      // A missing local file is reported whether or not a daemon answers.
      if (from.kind === "local") await localSource(from.path, cli.host.workingDirectory).look();
      const client = await cli.connect();
      const copied = await copy(
        cli,
        await openSource(cli, client, from),
        await openTarget(cli, client, to),
      );
      if (cli.wantsJson() && to.kind !== "stdio") await cli.out.line(plainJson(copied, 2));
    });
}

async function openSource(cli: Cli, client: SandboxClient, place: Place): Promise<CopySource> {
  if (place.kind === "stdio") return inputSource(cli.host.stdin);
  if (place.kind === "local") return localSource(place.path, cli.host.workingDirectory);
  const { signal } = cli.interrupts;
  const session = await findSession(cli, client, place.session);
  return sessionSource(session.files, place.path, signal);
}

async function openTarget(cli: Cli, client: SandboxClient, place: Place): Promise<CopyTarget> {
  if (place.kind === "stdio") return outputTarget(cli.out);
  if (place.kind === "local") return localTarget(place.path, cli.host.workingDirectory);
  const { signal } = cli.interrupts;
  const session = await findSession(cli, client, place.session);
  return sessionTarget(session.files, place.path, signal);
}

interface Copied {
  readonly from: string;
  readonly to: string;
  readonly kind: "file" | "directory";
  readonly bytes: number;
}

async function copy(cli: Cli, source: CopySource, target: CopyTarget): Promise<Copied> {
  const thing = await source.look();
  const placed = await target.place(thing);
  await using progress = makeProgress(cli.err, !cli.wantsJson());
  const counted = new CountedBytes(progress, source.shown, thing.sizeBytes);
  if (thing.kind === "directory") await placed.writeTree(counted.pass(await source.readTree()));
  else await placed.writeFile(counted.pass(await source.readFile()));
  return { from: source.shown, to: placed.shown, kind: thing.kind, bytes: counted.bytes };
}

class CountedBytes {
  bytes = 0;
  readonly #progress: Progress;
  readonly #label: string;
  readonly #total: number | undefined;

  constructor(progress: Progress, label: string, total: number | undefined) {
    this.#progress = progress;
    this.#label = label;
    this.#total = total;
  }

  async *pass(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const piece of source) {
      this.bytes += piece.byteLength;
      await this.#progress.show(this.#label, this.bytes, this.#total);
      yield piece;
    }
  }
}
