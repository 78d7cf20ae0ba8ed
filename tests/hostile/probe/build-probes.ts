/** Compiles the programs that attack from inside, and installs them in sandboxes. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Ran, TestSandbox } from "../../support/sandbox-machine.ts";

const execFileAsync = promisify(execFile);

const SYSCALL_PROBE = join(
  import.meta.dirname,
  "../../../packages/daemon/src/backends/container/seccomp/testdata/probe.c",
);
const source = (name: string): string => join(import.meta.dirname, name);

/** The programs, as static binaries. */
export interface Probes {
  /** See attack.c for what it can do. */
  readonly attack: Uint8Array;
  /** The prober of the system call tests, for the code user of a sandbox. */
  readonly probe: Uint8Array;
}

export async function buildProbes(): Promise<Probes> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-probes-"));
  try {
    const compile = async (name: string, args: readonly string[]): Promise<Uint8Array> => {
      const output = join(directory, name);
      await execFileAsync("cc", [
        "-Wall",
        "-Werror",
        "-O1",
        "-s",
        "-static",
        "-o",
        output,
        ...args,
      ]);
      return await readFile(output);
    };
    const [attack, probe] = await Promise.all([
      compile("attack", [source("attack.c"), "-pthread"]),
      compile("probe", ["-Wl,--wrap=setgroups", SYSCALL_PROBE, source("already-code-user.c")]),
    ]);
    return { attack, probe };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** A sandbox with the programs in its home. */
export interface Attacker extends TestSandbox {
  /** Runs attack.c with these arguments. */
  readonly attack: (...args: readonly string[]) => Promise<Ran>;
  /** Starts it and returns its first line; it continues until the sandbox ends it. */
  readonly attackAndHold: (...args: readonly string[]) => Promise<string>;
  /** Starts a process and returns its output as soon as it contains the text; it continues as well. */
  readonly holdUntil: (argv: readonly string[], said: string, execId: string) => Promise<string>;
  /** Makes system calls, given as `NUMBER:ARG,ARG`, and returns each one's outcome, such as `errno=1`. */
  readonly trySyscalls: (
    calls: Readonly<Record<string, string>>,
  ) => Promise<Record<string, string>>;
}

export async function arm(sandbox: TestSandbox, probes: Probes): Promise<Attacker> {
  const path = (name: string): string => `/home/sandbox/${name}`;
  for (const [name, bytes] of Object.entries(probes))
    await sandbox.channel.writeFile(path(name), bytes, { mode: 0o755 });
  const holdUntil: Attacker["holdUntil"] = async (argv, said, execId) => {
    const stream = await sandbox.channel.exec({ kind: "process", argv }, { execId });
    let text = "";
    for await (const { bytes } of stream) {
      text += Buffer.from(bytes).toString();
      if (text.includes(said)) return text.trim();
    }
    throw new Error(`${argv.join(" ")} ended before it said ${JSON.stringify(said)}: ${text}`);
  };
  return {
    ...sandbox,
    attack: (...args) => sandbox.run([path("attack"), ...args]),
    attackAndHold: (...args) => {
      const execId = `hold-${args.join("-").replaceAll(/[^\w-]/gu, "")}`;
      return holdUntil([path("attack"), ...args], "\n", execId);
    },
    holdUntil,
    trySyscalls: async (calls) => {
      const specs = Object.entries(calls).map(([label, call]) => `${label}=${call}`);
      const { stdout, stderr } = await sandbox.run([path("probe"), "try", ...specs]);
      if (stderr !== "") throw new Error(`The prober failed: ${stderr}`);
      const lines = stdout.trimEnd().split("\n");
      return Object.fromEntries(lines.map((line) => line.split(" ") as [string, string]));
    },
  };
}
