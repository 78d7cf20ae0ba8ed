/** The few programs that exist in the fake sandbox. */
import { setTimeout as sleep } from "node:timers/promises";
import type { TerminalSize } from "../ports.ts";
import type { MemoryFiles } from "./memory-files.ts";

const NEWLINE = 10;

export interface ProgramContext {
  readonly files: MemoryFiles;
  readonly cwd: string;
  readonly env: ReadonlyMap<string, string>;
  /** The current size of its terminal, if it has one. */
  readonly terminal: () => TerminalSize | undefined;
  readonly killed: AbortSignal;
  write(fd: 1 | 2, bytes: Uint8Array): void;
  /** Input chunks; ends when stdin is closed, at once when there is none. */
  readonly stdin: AsyncIterable<Uint8Array>;
  /** Listens on a port and echoes its input, until killed. */
  serveEcho(port: number, until: AbortSignal): void;
}

/** Runs a program and returns its exit code; undefined if there is no such program. */
export async function runProgram(
  argv: readonly string[],
  context: ProgramContext,
): Promise<number | undefined> {
  const [path = "", ...args] = argv;
  const print = (text: string): void => context.write(1, Buffer.from(text));
  switch (path.replace(/^(\/usr)?\/bin\//, "")) {
    case "true":
    case ":":
      return 0;
    case "false":
      return 1;
    case "echo":
      print(`${args.join(" ")}\n`);
      return 0;
    case "printf":
      print((args[0] ?? "").replaceAll(String.raw`\n`, "\n").replace("%s", args[1] ?? ""));
      return 0;
    case "pwd":
      print(`${context.cwd}\n`);
      return 0;
    case "printenv":
      if (!context.env.has(args[0] ?? "")) return 1;
      print(`${context.env.get(args[0] ?? "") ?? ""}\n`);
      return 0;
    case "sleep":
      await sleep(Number(args[0]) * 1000, undefined, { signal: context.killed });
      return 0;
    case "tty":
      print(context.terminal() === undefined ? "not a tty\n" : "/dev/pts/0\n");
      return context.terminal() === undefined ? 1 : 0;
    case "stty": {
      const size = context.terminal();
      if (size === undefined) return 1;
      print(`${size.rows} ${size.cols}\n`);
      return 0;
    }
    case "read":
      for await (const bytes of context.stdin) if (bytes.includes(NEWLINE)) return 0;
      return 1;
    case "cat":
      return cat(args, context);
    case "echo-server":
      context.serveEcho(Number(args[0]), context.killed);
      await sleep(0x7fff_ffff, undefined, { signal: context.killed });
      return 0;
    default:
      return undefined;
  }
}

async function cat(args: readonly string[], context: ProgramContext): Promise<number> {
  if (args.length === 0) {
    for await (const bytes of context.stdin) context.write(1, bytes);
    return 0;
  }
  let exitCode = 0;
  for (const arg of args) {
    try {
      const { bytes } = context.files.bytes(context.files.resolve(arg, context.cwd));
      for (let at = 0; at < bytes.byteLength; at += 65_536)
        context.write(1, bytes.subarray(at, at + 65_536));
    } catch {
      // As with the real program, an unreadable file is a message and an exit code.
      context.write(2, Buffer.from(`cat: ${arg}: No such file or directory\n`));
      exitCode = 1;
    }
  }
  return exitCode;
}
