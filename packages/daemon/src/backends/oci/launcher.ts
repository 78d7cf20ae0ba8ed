/** Requests to the native launcher, and the meaning of its responses. */
import { launcherCommands, launcherFailureSchema, SandboxError } from "@sandkasten/protocol";
import type {
  ErrorCode,
  LauncherAnswer,
  LauncherCommand,
  LauncherFailure,
  LauncherFailureKind,
  LauncherRequest,
} from "@sandkasten/protocol";
import type { OciConfig } from "./config/oci-spec.ts";
import { LauncherServer, noAnswer } from "./launcher-server.ts";
import { recordSchema } from "./sandbox-record.ts";
import type { SandboxMeta, SandboxRecord } from "./sandbox-record.ts";

type CreateRequest = LauncherRequest<"create">;

/** A create request with the daemon's own parts: the policy, and metadata to find again later. */
export interface LauncherCreate extends Omit<CreateRequest, "config" | "meta"> {
  readonly config: OciConfig;
  readonly meta: SandboxMeta;
}

export type LauncherRuntime = CreateRequest["runtime"];
export type LauncherIdentity = LauncherRequest<"destroy"> & { readonly runtime: LauncherRuntime };

export class Launcher {
  readonly #server: LauncherServer;

  constructor(program: string) {
    this.#server = LauncherServer.of(program);
  }

  /** Whether the launcher responds within this time. */
  async responds(withinMs: number): Promise<boolean> {
    return await this.#server.responds(withinMs);
  }

  async create(request: LauncherCreate): Promise<SandboxRecord> {
    return recordSchema.parse(await this.#run("create", request));
  }

  async destroy(request: LauncherRequest<"destroy">): Promise<void> {
    await this.#ask("destroy", request);
  }

  async list(request: LauncherRequest<"list">): Promise<LauncherAnswer<"list">["sandboxes"]> {
    return (await this.#ask("list", request)).sandboxes;
  }

  async listWorkspaces(
    request: LauncherRequest<"list-workspaces">,
  ): Promise<LauncherAnswer<"list-workspaces">["workspaces"]> {
    return (await this.#ask("list-workspaces", request)).workspaces;
  }

  /** Returns the users if it cannot be removed. */
  async destroyWorkspace(
    request: LauncherRequest<"destroy-workspace">,
  ): Promise<LauncherAnswer<"destroy-workspace">> {
    return await this.#ask("destroy-workspace", request);
  }

  /** Returns device nodes of the host to root that an earlier version let sandboxes own. */
  async repairDevices(): Promise<readonly string[]> {
    return (await this.#ask("repair-devices", { dev_dir: "/dev" })).repaired;
  }

  async check(): Promise<LauncherAnswer<"check">> {
    return await this.#ask("check", undefined);
  }

  /** The names of the steps of create, in order. */
  async steps(): Promise<LauncherAnswer<"steps">> {
    return await this.#ask("steps", undefined);
  }

  async #ask<C extends LauncherCommand>(
    command: C,
    request: LauncherRequest<C>,
  ): Promise<LauncherAnswer<C>> {
    const answer = await this.#run(command, request);
    return launcherCommands[command].answer.parse(answer) as LauncherAnswer<C>;
  }

  async #run(command: LauncherCommand, request: unknown): Promise<unknown> {
    const text = await this.#server.ask(command, request);
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch (cause) {
      throw new SandboxError("INTERNAL_ERROR", `launcher ${command} did not answer in JSON`, {
        cause,
        details: { answer: text.slice(0, 500) },
      });
    }
    const failure = launcherFailureSchema.safeParse(answer);
    if (failure.success) throw launcherError(command, failure.data);
    return answer;
  }
}

/** The error for each kind of failure, with the launcher's message if it helps. */
const ERRORS: Readonly<Record<LauncherFailureKind, (step: string, words: string) => SandboxError>> =
  {
    invalid_request: (step, words) =>
      error("INVALID_REQUEST", step, `the sandbox cannot be created: ${words}`),
    already_exists: (step, words) =>
      error("CONFLICT", step, `the sandbox already exists: ${words}`),
    no_space: (step, words) =>
      error(
        "STORAGE_FULL",
        step,
        `no space left to create the sandbox: ${words}; destroy sandboxes or free disk space`,
      ),
    no_loop_device: (step, words) =>
      error(
        "BACKEND_BUSY",
        step,
        `the machine has no free loop device for the sandbox's disk (${words}); try again, or destroy sandboxes`,
      ),
    unusable_image: (step, words) =>
      error("INVALID_IMAGE", step, `the image cannot be used: ${words}`),
    incompatible_workspace: (step, words) =>
      error("UNSUPPORTED", step, `${words}; run the daemon as before, or destroy the sandbox`),
    internal: (step, words) =>
      error("INTERNAL_ERROR", step, `the launcher failed at ${step}: ${words}`),
  };

function error(code: ErrorCode, step: string, message: string): SandboxError {
  return new SandboxError(code, message, { details: { step } });
}

export function launcherError(command: string, failure: LauncherFailure): SandboxError {
  if ("died" in failure) return noAnswer(command, failure.died.how, failure.died.said);
  const { kind, step, message } = failure.error;
  return ERRORS[kind](step, message);
}
