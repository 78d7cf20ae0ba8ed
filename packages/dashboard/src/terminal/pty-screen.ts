/** Connects a screen to a terminal in a sandbox. */
import type { Pty, Session } from "@sandkasten/sdk";
import type { Screen } from "./screen.ts";

/** Received output that is not on the screen yet; above this, the page disconnects for a while. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024;
/**
 * Output not received yet; beyond this, only its end is shown: more than the screen can scroll
 * back.
 */
const MOST_BEHIND_BYTES = 8 * 1024 * 1024;
/** When reattaching to a terminal, only the end of its output is shown again. */
const SHOWN_AGAIN_BYTES = 256 * 1024;

export interface PtyScreenOptions {
  readonly session: Session;
  readonly screen: Screen;
  readonly signal: AbortSignal;
  /** Reattaches to this terminal instead of opening one. */
  readonly execId?: string | undefined;
  readonly onStarted: (execId: string) => void;
}

/**
 * Shows a terminal to its end, and resolves with a message about it. A browser accepts everything
 * that a WebSocket sends, however fast, so a page that falls behind disconnects, shows what it has
 * and reconnects for the rest, which the daemon keeps.
 */
export async function showPty(options: PtyScreenOptions): Promise<string> {
  const { session, screen, signal } = options;
  const { terminal } = screen;
  let { execId } = options;
  let cursor = execId === undefined ? 0 : await nearEnd(session, execId, 0, signal);
  let pty: Pty | undefined;
  let isConnected = false;
  const started = Promise.withResolvers<void>();
  let typing: Promise<unknown> = started.promise;
  const send = async (bytes: Uint8Array): Promise<void> => {
    if (isConnected) pty?.write(bytes);
    // Ctrl-C matters most when the screen cannot keep up.
    else if (execId !== undefined) await session.getExec(execId).writeStdin(bytes, { signal });
  };
  const type = (bytes: Uint8Array): void => {
    // A key pressed while the terminal ends is lost, which is not an error.
    typing = typing.then(() => send(bytes)).catch(() => undefined);
  };
  const encoder = new TextEncoder();
  const keys = [
    terminal.onData((text) => type(encoder.encode(text))),
    terminal.onBinary((text) => type(Uint8Array.from(text, (sign) => sign.charCodeAt(0)))),
    terminal.onResize(({ rows, cols }) => isConnected && pty?.resize({ rows, cols })),
  ];
  try {
    for (;;) {
      const { rows, cols } = terminal;
      const known = execId === undefined ? {} : { execId, cursor };
      pty = await session.pty({ rows, cols, signal, ...known });
      if (execId === undefined) options.onStarted(pty.execId);
      execId = pty.execId;
      isConnected = true;
      started.resolve();
      const isBehind = await showUntilBehind(pty, screen, cursor, () => {
        isConnected = false;
      });
      isConnected = false;
      if (!isBehind || signal.aborted) return await endOf(pty);
      cursor = await nearEnd(session, execId, pty.cursor, signal);
    }
  } finally {
    for (const key of keys) key.dispose();
    pty?.close();
  }
}

/** true if it disconnected because too much output had arrived; all of it is shown then. */
async function showUntilBehind(
  pty: Pty,
  screen: Screen,
  cursor: number,
  onBehind: () => void,
): Promise<boolean> {
  let shown = cursor;
  let isBehind = false;
  for await (const output of pty) {
    shown += output.length;
    await screen.write(output);
    if (isBehind || pty.cursor - shown <= MOST_WAITING_BYTES) continue;
    isBehind = true;
    onBehind();
    pty.close();
  }
  return isBehind;
}

/** Where to continue: at the previous offset, unless that is too far back to be visible. */
async function nearEnd(
  session: Session,
  execId: string,
  cursor: number,
  signal: AbortSignal,
): Promise<number> {
  const { outputBytes } = await session.getExec(execId).info({ signal });
  const isFar = outputBytes - cursor > (cursor === 0 ? SHOWN_AGAIN_BYTES : MOST_BEHIND_BYTES);
  return isFar ? outputBytes - SHOWN_AGAIN_BYTES : cursor;
}

async function endOf(pty: Pty): Promise<string> {
  const { exitCode, endReason } = await pty.exited;
  return exitCode === null ? `ended: ${endReason ?? "unknown"}` : `exit code ${exitCode}`;
}
