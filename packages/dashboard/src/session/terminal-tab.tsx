/** A login shell of the session in a terminal. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../parts/format.ts";
import { showPty } from "../terminal/pty-screen.ts";
import { Screen } from "../terminal/screen.ts";
import type { TabProps } from "./tab-props.ts";

/** Terminals opened by this page, by session: returning to the tab reattaches to them. */
const opened = new Map<string, string>();

const isTouched = matchMedia("(pointer: coarse)").matches;

/** Keys that a phone's keyboard lacks. */
const TOUCH_KEYS = [
  ["Esc", "\u001b"],
  ["Tab", "\t"],
  ["Ctrl-C", "\u0003"],
  ["Ctrl-D", "\u0004"],
  ["↑", "\u001b[A"],
  ["↓", "\u001b[B"],
] as const;

function TouchKeys({ onKey }: { readonly onKey: (keys: string) => void }): JSX.Element {
  return (
    <div class="touch-keys" role="group" aria-label="Keys">
      {TOUCH_KEYS.map(([name, keys]) => (
        <button key={name} type="button" onClick={() => onKey(keys)}>
          {name}
        </button>
      ))}
    </div>
  );
}

export function TerminalTab({ session }: TabProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const type = useRef<((keys: string) => void) | undefined>(undefined);
  const [round, setRound] = useState(0);
  const [ended, setEnded] = useState<string | undefined>(undefined);

  useEffect(() => {
    if (place.current === null) return undefined;
    setEnded(undefined);
    const left = new AbortController();
    const screen = new Screen(place.current, {
      label: `Terminal in ${session.id}. Ctrl-M leaves it.`,
      onLeave: () => document.querySelector<HTMLElement>(".tabs [aria-current]")?.focus(),
    });
    screen.terminal.focus();
    type.current = (keys) => {
      screen.terminal.input(keys);
      screen.terminal.focus();
    };
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
      {isTouched && ended === undefined && <TouchKeys onKey={(keys) => type.current?.(keys)} />}
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
