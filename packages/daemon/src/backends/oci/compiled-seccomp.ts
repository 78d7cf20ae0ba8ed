/**
 * Saves crun from compiling the seccomp profile, a quarter of the processor time of a create. The
 * filter is the one that crun itself compiled for the first sandbox, byte for byte.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { SeccompProfile } from "../container/seccomp/profile.ts";
import type { OciConfig } from "./config/oci-spec.ts";
import type { LauncherCreate } from "./launcher.ts";
import type { SandboxRecord } from "./sandbox-record.ts";

/** crun accepts a compiled filter, in base64, instead of the profile. */
const ANNOTATION = "run.oci.seccomp_bpf_data";
/** The size of an instruction, and the kernel's maximum number of them. */
const INSTRUCTION_BYTES = 8;
const MAX_INSTRUCTIONS = 4096;

/** Functions that launch a sandbox and remove it again. */
interface Launching {
  readonly launch: (request: LauncherCreate) => Promise<SandboxRecord>;
  readonly remove: (id: string) => Promise<void>;
}

export class CompiledSeccomp {
  /** crun's compiled filter in base64, by the profile, of which there are few. */
  readonly #filters = new WeakMap<SeccompProfile, string>();
  /** Whether this crun accepts compiled filters; unknown until one was tried. */
  #isTaken: boolean | undefined;

  /** Creates a sandbox with the compiled filter of its profile, if there is one. */
  async create(request: LauncherCreate, launching: Launching): Promise<SandboxRecord> {
    if (request.runtime.kind !== "crun" || this.#isTaken === false)
      return await launching.launch(request);
    const profile = request.config.linux.seccomp;
    const filter = this.#filters.get(profile);
    if (filter !== undefined) return await this.#createWith(filter, request, launching);
    const record = await launching.launch({ ...request, keep_runtime_files: true });
    const compiled = await readFilter(request);
    if (compiled === undefined) this.#isTaken = false;
    else this.#filters.set(profile, compiled);
    return record;
  }

  async #createWith(
    filter: string,
    request: LauncherCreate,
    { launch, remove }: Launching,
  ): Promise<SandboxRecord> {
    const filtered = { ...request, config: withFilter(request.config, filter) };
    if (this.#isTaken === true) return await launch(filtered);
    try {
      const record = await launch({ ...filtered, keep_runtime_files: true });
      this.#isTaken = (await readFilter(request)) === filter;
      if (this.#isTaken) return record;
    } catch (error) {
      if (!isStartFailure(error)) throw error;
      // This crun may refuse filters. Any other cause fails again, and is reported then.
      this.#isTaken = false;
    }
    await remove(request.id);
    return await launch(request);
  }
}

/**
 * SECURITY: a hostile sandbox must not choose the filter of the next one. crun writes the filter
 * before code runs, into a directory that only root can enter and no sandbox sees. Guarded by
 * compiled-seccomp.container.test.ts.
 *
 * @returns The filter of a sandbox in base64, or undefined if this crun stores none there.
 */
async function readFilter({ runtime, id }: LauncherCreate): Promise<string | undefined> {
  const filter = await readFile(join(runtime.root, id, "seccomp.bpf")).catch(() => undefined);
  return filter === undefined || !isFilter(filter) ? undefined : filter.toString("base64");
}

/** The launcher steps that detect a first process that could not start. */
const START_STEPS: ReadonlySet<unknown> = new Set(["start", "record"]);

function isStartFailure(error: unknown): boolean {
  return error instanceof SandboxError && START_STEPS.has(error.details?.["step"]);
}

function isFilter({ length }: Buffer): boolean {
  return (
    length > 0 && length % INSTRUCTION_BYTES === 0 && length <= MAX_INSTRUCTIONS * INSTRUCTION_BYTES
  );
}

/**
 * SECURITY: a runtime that ignores the annotation gets a profile that refuses every call, so its
 * sandbox fails to start instead of running without a filter.
 */
function withFilter(config: OciConfig, filter: string): OciConfig {
  const { defaultAction, defaultErrnoRet, architectures } = config.linux.seccomp;
  const seccomp: SeccompProfile = { defaultAction, defaultErrnoRet, architectures, syscalls: [] };
  return {
    ...config,
    annotations: { ...config.annotations, [ANNOTATION]: filter },
    linux: { ...config.linux, seccomp },
  };
}
