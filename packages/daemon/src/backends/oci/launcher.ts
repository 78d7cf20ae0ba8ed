/** Speaks with the native launcher: one process per request, JSON in, one line of JSON out. */
import { spawn } from "node:child_process";
import { SandboxError } from "@sandkasten/protocol";
import { z } from "zod";
import type { OciConfig } from "./config/oci-spec.ts";

/** An OCI runtime, as the launcher is told of it. */
export interface LauncherRuntime {
  readonly kind: "crun" | "runc" | "runsc";
  readonly path: string;
  readonly root: string;
  readonly args?: readonly string[];
}

/** Which sandbox a request is about, and where its traces are. */
export interface LauncherIdentity {
  readonly id: string;
  readonly state_dir: string;
  readonly ids_dir: string;
  readonly cgroup_parent: string;
  readonly runtime: LauncherRuntime;
}

/** How to make a disk. */
export interface LauncherDisk {
  readonly bytes: number;
  readonly inodes: number;
  readonly templates_dir: string;
}

export interface LauncherCreate extends LauncherIdentity {
  readonly rootfs: {
    readonly path: string;
    readonly binds: readonly { readonly from: string; readonly to: string }[];
    readonly writable: boolean;
  };
  readonly runner: string;
  readonly disk: LauncherDisk;
  readonly workspace?: {
    readonly id: string;
    readonly workspaces_dir: string;
    /** For when there is none. */
    readonly disk: LauncherDisk;
  };
  readonly limits: {
    readonly memory_bytes: number;
    readonly cpu_millicores: number;
    readonly pids: number;
  };
  readonly config: OciConfig;
  readonly meta: Readonly<Record<string, unknown>>;
  /** For tests: fail, or die, right after this step. */
  readonly fail_after?: string;
  readonly die_after?: string;
}

/** Without a runtime the one in the launcher's own notes counts. */
export type LauncherDestroy = Omit<LauncherIdentity, "runtime"> & Partial<LauncherIdentity>;

const failureSchema = z.object({ error: z.object({ step: z.string(), message: z.string() }) });

const listSchema = z.object({
  sandboxes: z.array(
    z.object({ id: z.string(), state: z.enum(["running", "paused", "dead", "partial"]) }),
  ),
});

const workspacesSchema = z.object({
  workspaces: z.array(z.object({ id: z.string(), bytes: z.number() })),
});

const destroyedWorkspaceSchema = z.discriminatedUnion("destroyed", [
  z.object({ destroyed: z.literal(true) }),
  z.object({ destroyed: z.literal(false), in_use_by: z.array(z.string()) }),
]);

const checksSchema = z.array(
  z.object({
    name: z.string(),
    ok: z.boolean(),
    detail: z.string(),
    remedy: z.string().optional(),
  }),
);

/** More than any answer has; a launcher that says more is not ours. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

export type LauncherChecks = z.infer<typeof checksSchema>;
export type LauncherListing = z.infer<typeof listSchema>["sandboxes"][number];
export type LauncherWorkspace = z.infer<typeof workspacesSchema>["workspaces"][number];
export type DestroyedWorkspace = z.infer<typeof destroyedWorkspaceSchema>;

export class Launcher {
  readonly #program: string;

  constructor(program: string) {
    this.#program = program;
  }

  async create(request: LauncherCreate): Promise<void> {
    await this.#run("create", request);
  }

  async destroy(request: LauncherDestroy): Promise<void> {
    await this.#run("destroy", request);
  }

  async list(request: {
    readonly sandboxes_dir: string;
    readonly ids_dir: string;
    readonly cgroup_parent: string;
  }): Promise<LauncherListing[]> {
    return listSchema.parse(await this.#run("list", request)).sandboxes;
  }

  async listWorkspaces(request: { readonly workspaces_dir: string }): Promise<LauncherWorkspace[]> {
    return workspacesSchema.parse(await this.#run("list-workspaces", request)).workspaces;
  }

  /** Says who has it when it cannot be removed. */
  async destroyWorkspace(request: {
    readonly id: string;
    readonly workspaces_dir: string;
    readonly sandboxes_dir: string;
  }): Promise<DestroyedWorkspace> {
    return destroyedWorkspaceSchema.parse(await this.#run("destroy-workspace", request));
  }

  async check(): Promise<LauncherChecks> {
    return checksSchema.parse(await this.#run("check"));
  }

  /** The names of the steps of create, in order. */
  async steps(): Promise<string[]> {
    return z.array(z.string()).parse(await this.#run("steps"));
  }

  async #run(command: string, request?: unknown): Promise<unknown> {
    const { code, stdout, stderr } = await this.#spawn(command, request);
    let answer: unknown;
    try {
      answer = JSON.parse(stdout);
    } catch (cause) {
      throw new SandboxError(
        "INTERNAL_ERROR",
        `launcher ${command} ended with ${code} and no answer: ${stderr.slice(0, 500)}`,
        { cause },
      );
    }
    const failure = failureSchema.safeParse(answer);
    if (failure.success) throw launcherError(failure.data.error.step, failure.data.error.message);
    return answer;
  }

  #spawn(
    command: string,
    request: unknown,
  ): Promise<{ readonly code: string; readonly stdout: string; readonly stderr: string }> {
    return new Promise((resolve, reject) => {
      // SECURITY: the daemon's environment, with its keys, goes no further (threat 14).
      const child = spawn(this.#program, [command], {
        env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
        stdio: ["pipe", "pipe", "pipe"],
      });
      const texts = { stdout: "", stderr: "" };
      for (const name of ["stdout", "stderr"] as const) {
        child[name].setEncoding("utf8");
        child[name].on("data", (text: string) => {
          texts[name] += text;
          if (texts[name].length > MAX_ANSWER_BYTES) child.kill("SIGKILL");
        });
      }
      child.on("error", (cause) => {
        reject(
          new SandboxError("INTERNAL_ERROR", `cannot run the launcher ${this.#program}`, { cause }),
        );
      });
      child.on("close", (code, signal) => {
        resolve({ code: signal ?? String(code), ...texts });
      });
      // It may end before it has read all; its answer then says why.
      child.stdin.on("error", () => undefined);
      child.stdin.end(request === undefined ? "" : JSON.stringify(request));
    });
  }
}

/** The launcher's words, under the code that fits. */
function launcherError(step: string, message: string): SandboxError {
  const details = { step };
  if (step === "state_dir" && message.includes("exists already"))
    return new SandboxError("CONFLICT", `the sandbox exists already: ${message}`, { details });
  if (message.includes("No space left on device") || message.includes("os error 28"))
    return new SandboxError(
      "STORAGE_FULL",
      `no space left to make the sandbox: ${message}; destroy sandboxes or free disk space`,
      { details },
    );
  if (step === "spec")
    return new SandboxError("INVALID_REQUEST", `the sandbox cannot be made: ${message}`, {
      details,
    });
  if (step === "workspace" && message.includes("was made with"))
    return new SandboxError("UNSUPPORTED", `${message}; run the daemon as before, or destroy it`, {
      details,
    });
  if (step === "mount_rootfs")
    return new SandboxError("INVALID_IMAGE", `the image cannot be used: ${message}`, { details });
  return new SandboxError("INTERNAL_ERROR", `the launcher failed at ${step}: ${message}`, {
    details,
  });
}
