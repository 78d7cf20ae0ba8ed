/** Lists and closes the shells of a session. */
import type { LiveSession } from "./live-session.ts";
import type { Caller } from "./services/caller.ts";
import type { ShellService, ShellView } from "./services/shell-service.ts";
import type { Sessions } from "./sessions.ts";

export class Shells implements ShellService {
  readonly #sessions: Sessions;

  constructor(sessions: Sessions) {
    this.#sessions = sessions;
  }

  async list(caller: Caller, sessionId: string): Promise<readonly ShellView[]> {
    return await this.#inside(caller, sessionId, async (session) => {
      const shells = await (await session.channel()).shells();
      const waiting = [...session.recordings].filter(({ row }) => row.status === "queued");
      return shells.map((shell) => ({
        ...shell,
        queued: waiting.filter(({ row }) => row.shell === shell.name).length,
      }));
    });
  }

  async close(caller: Caller, sessionId: string, name: string): Promise<void> {
    await this.#inside(caller, sessionId, async (session) => {
      const channel = await session.channel();
      const queued = [...session.recordings].filter(
        ({ row: { shell, status } }) => shell === name && status === "queued",
      );
      await Promise.all(queued.map((recording) => recording.abandon("cancelled")));
      await channel.closeShell(name);
    });
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
      await this.#sessions.leaveLive(caller, session);
    }
  }
}
