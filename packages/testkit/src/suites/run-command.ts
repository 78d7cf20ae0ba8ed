/** Runs a command to its end and collects its output, for the suites. */
import { randomUUID } from "node:crypto";
import type {
  Channel,
  ExecCommand,
  ExecEnd,
  ExecOptions,
  ExecStream,
  OutputChunk,
} from "../ports.ts";

export interface CommandResult {
  readonly execId: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly chunks: readonly OutputChunk[];
  readonly end: ExecEnd;
}

export function newExecId(): string {
  return `x${randomUUID()}`;
}

/** A string runs in the shell, a list as a process. */
export function commandOf(command: string | readonly string[]): ExecCommand {
  return typeof command === "string"
    ? { kind: "shell", text: command }
    : { kind: "process", argv: command };
}

export async function run(
  channel: Channel,
  command: string | readonly string[],
  options: Partial<ExecOptions> = {},
): Promise<CommandResult> {
  const execId = options.execId ?? newExecId();
  const exec = await channel.exec(commandOf(command), { ...options, execId });
  const chunks = await chunksOf(exec);
  return {
    execId,
    chunks,
    stdout: textOf(chunks, "stdout"),
    stderr: textOf(chunks, "stderr"),
    end: await exec.ended,
  };
}

/** All chunks up to the end, copied: the originals are only valid until the next one is requested. */
export function chunksOf(exec: ExecStream): Promise<OutputChunk[]> {
  return Array.fromAsync(exec, (chunk) => ({ ...chunk, bytes: Uint8Array.from(chunk.bytes) }));
}

export function textOf(chunks: readonly OutputChunk[], stream?: OutputChunk["stream"]): string {
  return Buffer.concat(
    chunks.filter((c) => stream === undefined || c.stream === stream).map((c) => c.bytes),
  ).toString();
}

export async function contentOf(channel: Channel, path: string): Promise<Buffer> {
  const { body } = await channel.readFile(path);
  return Buffer.concat(await Array.fromAsync(body));
}

/** A SandboxError with that code, for `rejects.toEqual`. */
export function withCode(code: string): { readonly code: string } {
  return { code };
}
