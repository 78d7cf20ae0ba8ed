/** The live list of sessions. */
import { signal } from "@preact/signals";
import type { SessionInfo } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { bytes, percent, shortId, since, until } from "../parts/format.ts";
import { Icon } from "../parts/icons.tsx";
import { Meter } from "../parts/meter.tsx";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { useTitle } from "../parts/use-title.ts";
import { VirtualRows } from "../parts/virtual-rows.tsx";
import { linkTo } from "../routing.ts";
import { areSessionsLoaded, isOver, sessions, sessionsFailure } from "../state/sessions.ts";
import { usage, watchUsage } from "../state/usage.ts";
import { now } from "../state/visibility.ts";
import { NewSession } from "./new-session.tsx";

type Choice = "active" | "all";

const ROW_HEIGHT = 52;
const NARROW_ROW_HEIGHT = 88;
const narrow = matchMedia("(max-width: 760px)");
const isNarrow = signal(narrow.matches);
narrow.addEventListener("change", ({ matches }) => {
  isNarrow.value = matches;
});

/** Touch screens have no `/` key. */
const hasKeyboard = matchMedia("(hover: hover)").matches;

const choice = signal<Choice>("active");
const searched = signal("");

export function SessionsPage(): JSX.Element {
  useTitle("Sessions");
  const [isCreating, setCreating] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => onKey("/", () => search.current?.focus()), []);
  useEffect(() => onKey("n", () => setCreating(true)), []);
  const living = sessions.value.filter((session) => !isOver(session));
  const shown = (choice.value === "active" ? living : sessions.value).filter(matches);
  return (
    <div class="page fill">
      <div class="page-head">
        <h1>Sessions</h1>
        <div class="choices" role="group" aria-label="Which sessions">
          <ChoiceButton name="active" title="Active" count={living.length} />
          <ChoiceButton name="all" title="All" count={sessions.value.length} />
        </div>
        <input
          ref={search}
          class="search"
          type="search"
          placeholder={hasKeyboard ? "Search  /" : "Search"}
          aria-label="Search sessions by id, image, status or metadata"
          value={searched.value}
          onInput={({ currentTarget }) => {
            searched.value = currentTarget.value;
          }}
        />
        <button type="button" class="primary" onClick={() => setCreating(true)}>
          <Icon name="plus" /> New session
        </button>
      </div>
      <Failure of={sessionsFailure.value} />
      {shown.length > 0 ? (
        <VirtualRows
          items={shown}
          rowHeight={isNarrow.value ? NARROW_ROW_HEIGHT : ROW_HEIGHT}
          label="Sessions"
          keyOf={({ id }) => id}
          head={<Head />}
          row={(session) => <Row session={session} />}
        />
      ) : (
        <NoSessions onCreate={() => setCreating(true)} />
      )}
      {isCreating && <NewSession onClose={() => setCreating(false)} />}
    </div>
  );
}

function ChoiceButton(props: {
  readonly name: Choice;
  readonly title: string;
  readonly count: number;
}): JSX.Element {
  const { name, title, count } = props;
  const choose = (): void => {
    choice.value = name;
  };
  return (
    <button type="button" aria-pressed={choice.value === name} onClick={choose}>
      {title} <span class="count">{count}</span>
    </button>
  );
}

function Head(): JSX.Element {
  return (
    <div class="table-head sessions-grid" role="row">
      {["Session", "State", "Image", "Age", "CPU", "Memory", "Expires in"].map((title) => (
        <span key={title} role="columnheader">
          {title}
        </span>
      ))}
    </div>
  );
}

function Row({ session }: { readonly session: SessionInfo }): JSX.Element {
  const { id, status, image, createdAt, expiresAt, endedAt } = session;
  const isLiving = !isOver(session);
  return (
    <div class="sessions-grid" role="presentation">
      <span role="cell" class="cell-name">
        <a href={linkTo("sessions", id)} class="mono" title={id}>
          {shortId(id)}
        </a>
        <Names of={session} />
      </span>
      <span role="cell">
        <Status of={status} />
      </span>
      <span role="cell" class="cell-image" title={image}>
        {image}
      </span>
      <span role="cell" class="number">
        {since(createdAt, endedAt === undefined ? now.value : Date.parse(endedAt))}
      </span>
      <UsageCells session={session} />
      <span role="cell" class="number muted cell-expires">
        {isLiving ? until(expiresAt, now.value) : "—"}
      </span>
    </div>
  );
}

/** Texts that people search for. */
function Names({ of: { metadata, key } }: { readonly of: SessionInfo }): JSX.Element | null {
  const text = metadata["name"] ?? key;
  return text === undefined ? null : <span class="muted cell-label">{text}</span>;
}

function UsageCells({ session }: { readonly session: SessionInfo }): JSX.Element {
  const { id, limits, status } = session;
  useEffect(() => (status === "running" ? watchUsage(id) : undefined), [id, status]);
  const sample = status === "running" ? usage.value.get(id)?.at(-1) : undefined;
  const cpuShare =
    sample?.cores === undefined ? undefined : sample.cores / (limits.cpuMillicores / 1000);
  return (
    <>
      <span role="cell">
        <Meter
          label="CPU"
          share={cpuShare}
          text={cpuShare === undefined ? "—" : percent(cpuShare)}
        />
      </span>
      <span role="cell">
        <Meter
          label="Memory"
          share={sample && sample.stats.memoryBytes / sample.stats.memoryLimit}
          text={sample ? bytes(sample.stats.memoryBytes) : "—"}
        />
      </span>
    </>
  );
}

function NoSessions({ onCreate }: { readonly onCreate: () => void }): JSX.Element {
  if (!areSessionsLoaded.value) return <Loading />;
  if (searched.value !== "") return <Empty>No session matches “{searched.value}”.</Empty>;
  return (
    <Empty>
      <h2>No {choice.value === "active" ? "active sessions" : "sessions yet"}</h2>
      <p>A session is a sandbox with a shell, files and web previews. Create one here or run</p>
      <p>
        <code>sandkasten run -- 'echo hello from $(uname)'</code>
      </p>
      <button type="button" onClick={onCreate}>
        <Icon name="plus" /> Create a session
      </button>
    </Empty>
  );
}

function matches({ id, image, status, key = "", metadata }: SessionInfo): boolean {
  const words = searched.value.toLowerCase().split(/\s+/);
  const text = [id, image, status, key, ...Object.entries(metadata).flat()].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** A single key, unless the focus is in a field. */
function onKey(key: string, act: () => void): () => void {
  const listen = (event: KeyboardEvent): void => {
    const isTyping = (event.target as HTMLElement).closest("input, textarea, select, dialog");
    if (event.key !== key || isTyping !== null || event.ctrlKey || event.metaKey || event.altKey)
      return;
    event.preventDefault();
    act();
  };
  addEventListener("keydown", listen);
  return () => removeEventListener("keydown", listen);
}
