/** The output of one command: live, or replayed with its original timing. */
import type { ExecInfo, Session } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { bytes, messageOf } from "../parts/format.ts";
import { Icon } from "../parts/icons.tsx";
import { attempt } from "../parts/toasts.tsx";
import { Screen } from "../terminal/screen.ts";

const STDERR = new TextEncoder().encode("\u001b[31m");
const PLAIN = new TextEncoder().encode("\u001b[39m");
/** Pauses in a replay are no longer than this. */
const LONGEST_PAUSE_MS = 1500;

export interface CommandOutputProps {
  readonly session: Session;
  readonly execId: string;
  /** The state of the command; absent if it has just been started. */
  readonly exec: ExecInfo | undefined;
  readonly onClose: () => void;
}

export function CommandOutput({ session, execId, exec, onClose }: CommandOutputProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [speed, setSpeed] = useState<"now" | "as it came">("now");
  const [round, setRound] = useState(0);
  const [failure, setFailure] = useState<string | undefined>(undefined);
  useEffect(() => {
    if (place.current === null) return undefined;
    const left = new AbortController();
    const screen = new Screen(place.current, { label: "Output of the command", isReadOnly: true });
    show(session, execId, screen, speed === "as it came", left.signal).catch((error: unknown) => {
      if (!left.signal.aborted) setFailure(messageOf(error));
    });
    return () => {
      left.abort();
      screen[Symbol.dispose]();
    };
  }, [session, execId, speed, round]);
  const replay = (): void => {
    setSpeed("as it came");
    setRound(round + 1);
  };
  return (
    <div class="command-output">
      <div class="files-bar">
        <span class="file-title muted">
          {exec === undefined ? "" : `${bytes(exec.outputBytes)} of output`}
          {exec !== undefined && exec.droppedBytes > 0 && `, ${bytes(exec.droppedBytes)} not kept`}
        </span>
        {exec?.status === "running" ? (
          <button
            type="button"
            class="danger"
            onClick={() => attempt(() => session.getExec(execId).cancel(), "Cancelled.")}
          >
            Cancel
          </button>
        ) : (
          <button type="button" onClick={replay}>
            <Icon name="runs" /> Replay
          </button>
        )}
        <button type="button" class="plain" onClick={onClose} aria-label="Close the output">
          <Icon name="cross" />
        </button>
      </div>
      {failure !== undefined && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      <div class="screen" ref={place} />
    </div>
  );
}

async function show(
  session: Session,
  execId: string,
  screen: Screen,
  asItCame: boolean,
  signal: AbortSignal,
): Promise<void> {
  let last: number | undefined;
  for await (const chunk of session.getExec(execId).follow({ signal })) {
    const { stream, bytes: output, timestamp, skippedBytes } = chunk;
    if (asItCame) await pause(timestamp - (last ?? timestamp), signal);
    last = timestamp;
    if (skippedBytes > 0)
      await screen.write(`\u001b[2m[${bytes(skippedBytes)} not kept]\u001b[22m\n`);
    await screen.write(stream === "stderr" ? joined(STDERR, output, PLAIN) : output);
  }
}

function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function pause(gapMs: number, signal: AbortSignal): Promise<void> {
  if (gapMs <= 0) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, Math.min(LONGEST_PAUSE_MS, gapMs));
  signal.addEventListener("abort", () => resolve(), { once: true });
  return promise.finally(() => clearTimeout(timer));
}
