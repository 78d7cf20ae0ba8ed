/** What can be done to commands that run, and to the shells that they run in. */
import { SandboxError } from "@sandkasten/protocol";
import type { ExecStream, TerminalSize } from "../ports/channel.ts";
import type { ExecFinder } from "./exec-finder.ts";
import type { LiveSession } from "./live-session.ts";
import type { Caller, ShellView } from "./services.ts";
import type { Sessions } from "./sessions.ts";

export class ExecControl {
  readonly #sessions: Sessions;
  readonly #finder: ExecFinder;

  constructor(sessions: Sessions, finder: ExecFinder) {
    this.#sessions = sessions;
    this.#finder = finder;
  }

  async signal(
    caller: Caller,
    sessionId: string,
    execId: string,
    signal: number,
    options?: { readonly tree?: boolean },
  ): Promise<number> {
    const recording = this.#finder.running(caller, sessionId, execId);
    if (recording?.row.status === "queued") {
      await recording.abandon("killed");
      return 1;
    }
    return await this.#inside(caller, sessionId, async (session) =>
      (await session.channel()).signal(execId, signal, options),
    );
  }

  /** False when the command has ended already. */
  async cancel(caller: Caller, sessionId: string, execId: string): Promise<boolean> {
    const recording = this.#finder.running(caller, sessionId, execId);
    if (recording?.row.status === "queued") {
      await recording.abandon("cancelled");
      return true;
    }
    const { status } = recording?.row ?? (await this.#finder.stored(caller, sessionId, execId));
    if (status === "done") return false;
    return await this.#inside(caller, sessionId, async (session) =>
      (await session.channel()).cancel(execId),
    );
  }

  async shells(caller: Caller, sessionId: string): Promise<readonly ShellView[]> {
    return await this.#inside(caller, sessionId, async (session) => {
      const shells = await (await session.channel()).shells();
      const waiting = [...session.recordings].filter(({ row }) => row.status === "queued");
      return shells.map((shell) => ({
        ...shell,
        queued: waiting.filter(({ row }) => row.shell === shell.name).length,
      }));
    });
  }

  /** Cancels what runs and waits in it. */
  async closeShell(caller: Caller, sessionId: string, name: string): Promise<void> {
    await this.#inside(caller, sessionId, async (session) => {
      const channel = await session.channel();
      for (const recording of session.recordings) {
        const { shell, status } = recording.row;
        if (shell === name && status === "queued") await recording.abandon("cancelled");
      }
      await channel.closeShell(name);
    });
  }

  async writeStdin(
    caller: Caller,
    sessionId: string,
    execId: string,
    bytes: Uint8Array,
  ): Promise<void> {
    await this.#inside(caller, sessionId, async () => {
      await (await this.#input(caller, sessionId, execId)).writeStdin(bytes);
    });
  }

  async closeStdin(caller: Caller, sessionId: string, execId: string): Promise<void> {
    await this.#inside(caller, sessionId, async () => {
      await (await this.#input(caller, sessionId, execId)).closeStdin();
    });
  }

  async resize(
    caller: Caller,
    sessionId: string,
    execId: string,
    size: TerminalSize,
  ): Promise<void> {
    await this.#inside(caller, sessionId, async (session) =>
      (await session.channel()).resize(execId, size),
    );
  }

  async #inside<T>(
    caller: Caller,
    sessionId: string,
    work: (session: LiveSession) => Promise<T>,
  ): Promise<T> {
    const session = await this.#sessions.enterLive(caller, sessionId);
    try {
      return await work(session);
    } finally {
      await session.leave();
    }
  }

  async #input(caller: Caller, sessionId: string, execId: string): Promise<ExecStream> {
    const recording = this.#finder.running(caller, sessionId, execId);
    if (recording === undefined) {
      await this.#finder.stored(caller, sessionId, execId);
      throw new SandboxError("CONFLICT", `the command ${execId} has ended and takes no input`);
    }
    return await recording.begun;
  }
}
