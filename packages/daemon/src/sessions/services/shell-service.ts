/** What callers can do with shells. */
import type { ShellInfo } from "../../ports/channel.ts";
import type { Caller } from "./caller.ts";

export interface ShellView extends ShellInfo {
  /** Commands waiting for the shell. */
  readonly queued: number;
}

export interface ShellService {
  /** The session's shells, in order of creation. */
  list(caller: Caller, sessionId: string): Promise<readonly ShellView[]>;
  /**
   * Ends a shell, and cancels its running and queued commands. Rejects with SHELL_NOT_FOUND if
   * there is none with this name.
   */
  close(caller: Caller, sessionId: string, name: string): Promise<void>;
}
