/** What the native launcher is asked, and what its answers mean. */
import { SandboxError } from "@sandkasten/protocol";
import { z } from "zod";
import type { OciConfig } from "./config/oci-spec.ts";
import { LauncherServer, noAnswer } from "./launcher-server.ts";
import { recordSchema } from "./sandbox-record.ts";
import type { SandboxRecord } from "./sandbox-record.ts";

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

export interface LauncherWorkspaceRequest {
  readonly id: string;
  readonly workspaces_dir: string;
  /** For when there is none. */
  readonly disk: LauncherDisk;
}

export interface LauncherCreate extends LauncherIdentity {
  readonly rootfs: {
    readonly path: string;
    readonly binds: readonly { readonly from: string; readonly to: string }[];
    readonly writable: boolean;
  };
  readonly runner: string;
  readonly disk: LauncherDisk;
  readonly workspace?: LauncherWorkspaceRequest;
  /** Beside the one at /workspace. */
  readonly workspaces: readonly {
    readonly workspace: LauncherWorkspaceRequest;
    readonly path: string;
    readonly read_only: boolean;
  }[];
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

/** The process that worked for the request ended without an answer. */
const deathSchema = z.object({ died: z.object({ how: z.string(), said: z.string() }) });

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

const repairedSchema = z.object({ repaired: z.array(z.string()) });

const checksSchema = z.array(
  z.object({
    name: z.string(),
    ok: z.boolean(),
    detail: z.string(),
    remedy: z.string().optional(),
  }),
);

export type LauncherChecks = z.infer<typeof checksSchema>;
export type LauncherListing = z.infer<typeof listSchema>["sandboxes"][number];
export type LauncherWorkspace = z.infer<typeof workspacesSchema>["workspaces"][number];
export type DestroyedWorkspace = z.infer<typeof destroyedWorkspaceSchema>;

export class Launcher {
  readonly #server: LauncherServer;

  constructor(program: string) {
    this.#server = LauncherServer.of(program);
  }

  /** Whether the launcher answers within this time. */
  async answers(withinMs: number): Promise<boolean> {
    return await this.#server.answers(withinMs);
  }

  async create(request: LauncherCreate): Promise<SandboxRecord> {
    return recordSchema.parse(await this.#run("create", request));
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

  /** Gives device nodes of the host that an earlier version let sandboxes own back to root. */
  async repairDevices(): Promise<readonly string[]> {
    const answer = await this.#run("repair-devices", { dev_dir: "/dev" });
    return repairedSchema.parse(answer).repaired;
  }

  async check(): Promise<LauncherChecks> {
    return checksSchema.parse(await this.#run("check"));
  }

  /** The names of the steps of create, in order. */
  async steps(): Promise<string[]> {
    return z.array(z.string()).parse(await this.#run("steps"));
  }

  async #run(command: string, request?: unknown): Promise<unknown> {
    const text = await this.#server.ask(command, request);
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch (cause) {
      throw new SandboxError("INTERNAL_ERROR", `launcher ${command} gave no answer in JSON`, {
        cause,
        details: { answer: text.slice(0, 500) },
      });
    }
    const death = deathSchema.safeParse(answer);
    if (death.success) throw noAnswer(command, death.data.died.how, death.data.died.said);
    const failure = failureSchema.safeParse(answer);
    if (failure.success) throw launcherError(failure.data.error.step, failure.data.error.message);
    return answer;
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
  if (message.includes("no loop device became free"))
    return new SandboxError(
      "BACKEND_BUSY",
      `the machine has no free loop device for the sandbox's disk (${message}); try again, or destroy sandboxes`,
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
