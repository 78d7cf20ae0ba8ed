/** The commands of a session: run one, watch it, and read the output of earlier ones. */
import type { ExecInfo, Session } from "@sandkasten/sdk";
import type { JSX, TargetedSubmitEvent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { textIn } from "../parts/form-text.ts";
import { duration, timeOfDay } from "../parts/format.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { onEvent } from "../state/feed.ts";
import { isOver } from "../state/sessions.ts";
import { CommandOutput } from "./command-output.tsx";
import type { TabProps } from "./tab-props.ts";

const MOST_SHOWN = 200;

export function CommandsTab({ session, info }: TabProps): JSX.Element {
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const listed = useLoaded((signal) => newestExecs(session, signal), [session]);
  useEffect(
    () =>
      onEvent(({ type, sessionId }) => {
        if (sessionId === session.id && type.startsWith("exec.")) listed.reload();
      }),
    [session, listed.reload],
  );
  const execs = listed.value ?? [];
  const shown = execs.find(({ execId }) => execId === chosen);
  return (
    <div class={`commands ${chosen === undefined ? "" : "with-view"}`}>
      <div class="commands-list">
        {!isOver(info) && <RunForm session={session} onStarted={setChosen} />}
        <Failure of={listed.failure} />
        {listed.value === undefined && listed.failure === undefined && <Loading />}
        {listed.value?.length === 0 && <Empty>No commands yet.</Empty>}
        <ul class="entries scroll" aria-label="Commands">
          {execs.map((exec) => (
            <li key={exec.execId} class={exec.execId === chosen ? "open" : ""}>
              <button
                type="button"
                class="entry plain"
                aria-pressed={exec.execId === chosen}
                onClick={() => setChosen(exec.execId)}
              >
                <Status of={wordFor(exec)} />
                <span class="entry-name mono">{textOf(exec)}</span>
                <span class="number muted">{duration(exec.durationMs)}</span>
                <span class="muted entry-time">{timeOfDay(exec.startedAt)}</span>
              </button>
            </li>
          ))}
        </ul>
      </div>
      {chosen !== undefined && (
        <CommandOutput
          key={chosen}
          session={session}
          execId={chosen}
          exec={shown}
          onClose={() => setChosen(undefined)}
        />
      )}
    </div>
  );
}

function RunForm(props: {
  readonly session: Session;
  readonly onStarted: (execId: string) => void;
}): JSX.Element {
  const { session, onStarted } = props;
  const run = (event: TargetedSubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const cmd = textIn(form, "cmd");
    if (cmd === "") return;
    attempt(async () => {
      const exec = await session.start(cmd);
      form.reset();
      onStarted(exec.id);
    });
  };
  return (
    <form class="run-form" onSubmit={run}>
      <input
        name="cmd"
        class="mono"
        placeholder="Run a command in the session's shell"
        aria-label="Command"
        spellcheck={false}
        autocomplete="off"
      />
      <button type="submit" class="primary">
        Run
      </button>
    </form>
  );
}

async function newestExecs(session: Session, signal: AbortSignal): Promise<readonly ExecInfo[]> {
  const found: ExecInfo[] = [];
  for await (const exec of session.execs({ signal })) {
    found.push(exec);
    if (found.length === MOST_SHOWN) break;
  }
  return found;
}

/** The outcome in one word. */
export function wordFor({ status, exitCode, endReason }: ExecInfo): string {
  if (status === "running") return "running";
  if (endReason === "exited") return exitCode === 0 ? "succeeded" : `exit ${exitCode ?? "?"}`;
  return endReason ?? status;
}

export function textOf({ cmd }: ExecInfo): string {
  return typeof cmd === "string" ? cmd : cmd.join(" ");
}
