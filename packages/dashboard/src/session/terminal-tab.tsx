/** A login shell of the session on a terminal. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../parts/format.ts";
import { showPty } from "../terminal/pty-screen.ts";
import { Screen } from "../terminal/screen.ts";
import type { TabProps } from "./tab-props.ts";

/** The terminals that this page has opened, by session: who leaves the tab finds them again. */
const opened = new Map<string, string>();

export function TerminalTab({ session }: TabProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [round, setRound] = useState(0);
  const [ended, setEnded] = useState<string | undefined>(undefined);

  useEffect(() => {
    if (place.current === null) return undefined;
    setEnded(undefined);
    const left = new AbortController();
    const screen = new Screen(place.current, { label: `Terminal in ${session.id}` });
    screen.terminal.focus();
    showPty({
      session,
      screen,
      signal: left.signal,
      execId: opened.get(session.id),
      onStarted: (execId) => opened.set(session.id, execId),
    })
      .catch((error: unknown) => messageOf(error))
      .then((how) => {
        if (left.signal.aborted) return;
        opened.delete(session.id);
        setEnded(how);
      })
      // Nothing above rejects.
      .catch(() => undefined);
    return () => {
      left.abort();
      screen[Symbol.dispose]();
    };
  }, [session, round]);

  return (
    <div class="terminal-tab">
      <div class="screen" ref={place} data-ended={ended} />
      {ended !== undefined && (
        <p class="terminal-end" role="status">
          The terminal has ended ({ended}).
          <button type="button" onClick={() => setRound(round + 1)}>
            Open another
          </button>
        </p>
      )}
    </div>
  );
}
