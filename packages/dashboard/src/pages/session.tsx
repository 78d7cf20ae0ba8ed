/** One session: its state, and everything that can be done with it. */
import type { Session, SessionInfo } from "@sandkasten/sdk";
import type { ComponentType, JSX } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import { Confirm } from "../parts/confirm.tsx";
import { CopyButton } from "../parts/copy-button.tsx";
import { dateTime, since, until } from "../parts/format.ts";
import { Icon } from "../parts/icons.tsx";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { useTitle } from "../parts/use-title.ts";
import { goTo, linkTo } from "../routing.ts";
import type { TabProps } from "../session/tab-props.ts";
import { sessionHandle } from "../state/session-handle.ts";
import { isOver, learnSession, sessionById } from "../state/sessions.ts";
import { now } from "../state/visibility.ts";

interface Tab {
  readonly title: string;
  readonly View: ComponentType<TabProps>;
  /** Whether it has anything to show for a session that has ended. */
  readonly outlives?: boolean;
}

const TABS: Readonly<Record<string, Tab>> = {
  terminal: {
    title: "Terminal",
    View: lazy(() => import("../session/terminal-tab.tsx").then(({ TerminalTab: tab }) => tab)),
  },
  files: {
    title: "Files",
    View: lazy(() => import("../session/files-tab.tsx").then(({ FilesTab: tab }) => tab)),
  },
  commands: {
    title: "Commands",
    outlives: true,
    View: lazy(() => import("../session/commands-tab.tsx").then(({ CommandsTab: tab }) => tab)),
  },
  ports: {
    title: "Ports",
    View: lazy(() => import("../session/ports-tab.tsx").then(({ PortsTab: tab }) => tab)),
  },
  network: {
    title: "Network",
    outlives: true,
    View: lazy(() => import("../session/network-tab.tsx").then(({ NetworkTab: tab }) => tab)),
  },
  usage: {
    title: "Usage",
    View: lazy(() => import("../session/usage-tab.tsx").then(({ UsageTab: tab }) => tab)),
  },
  isolation: {
    title: "Isolation",
    View: lazy(() => import("../session/isolation-tab.tsx").then(({ IsolationTab: tab }) => tab)),
  },
};

export interface SessionPageProps {
  readonly id: string;
  readonly tab: string;
}

export function SessionPage({ id, tab }: SessionPageProps): JSX.Element {
  const loaded = useLoaded(
    async (signal) => {
      const session = await sessionHandle(id, signal);
      learnSession(await session.info({ signal }));
      return session;
    },
    [id],
  );
  const session = loaded.value;
  const info = sessionById(id);
  useTitle(info?.metadata["name"] ?? id);
  if (loaded.failure !== undefined && session === undefined)
    return (
      <div class="page">
        <div class="session-name">
          <a class="back" href={linkTo("sessions")}>
            Sessions
          </a>
          <h1 class="mono">{id}</h1>
        </div>
        <Failure of={loaded.failure} />
      </div>
    );
  if (session === undefined || info === undefined) return <Loading />;
  const chosen = TABS[tab] ?? TABS["terminal"];
  return (
    <div class="page fill">
      <SessionHead session={session} info={info} />
      <Tabs id={id} chosen={chosen} />
      <section class="tab" aria-label={chosen?.title}>
        <Suspense fallback={<Loading />}>
          {chosen !== undefined && <TabView tab={chosen} session={session} info={info} />}
        </Suspense>
      </section>
    </div>
  );
}

function Tabs(props: { readonly id: string; readonly chosen: Tab | undefined }): JSX.Element {
  const { id, chosen } = props;
  const nav = useRef<HTMLElement>(null);
  // A narrow screen shows only some of them.
  useEffect(() => {
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ inline: "center" });
  }, [chosen]);
  return (
    <nav class="tabs" aria-label="Parts of the session" ref={nav}>
      {Object.entries(TABS).map(([name, tab]) => (
        <a
          key={name}
          href={linkTo("sessions", id, name)}
          aria-current={tab === chosen ? "page" : undefined}
        >
          {tab.title}
        </a>
      ))}
    </nav>
  );
}

function TabView({ tab, session, info }: TabProps & { readonly tab: Tab }): JSX.Element {
  if (isOver(info) && tab.outlives !== true)
    return <Empty>The session has ended. Its commands and connections can still be read.</Empty>;
  if (info.status === "paused" && tab.outlives !== true)
    return <Empty>The session is paused. Resume it to use it.</Empty>;
  if (info.status === "creating") return <Empty>The session is being created…</Empty>;
  return <tab.View session={session} info={info} />;
}

function SessionHead({ session, info }: TabProps): JSX.Element {
  const [isDestroying, setDestroying] = useState(false);
  const { id, image, status, createdAt, expiresAt, endedAt, endReason, metadata } = info;
  const act = (work: () => Promise<SessionInfo>, done: string): void =>
    attempt(async () => learnSession(await work()), done);
  return (
    <div class="session-head">
      <div class="session-name">
        <a class="back" href={linkTo("sessions")}>
          Sessions
        </a>
        <h1 class="mono">{id}</h1>
        <CopyButton text={id} label="Copy the session's id" />
        <Status of={status} />
      </div>
      <dl class="facts">
        {metadata["name"] !== undefined && <Fact name="Name" value={metadata["name"]} />}
        <Fact name="Image" value={image} />
        <Fact
          name="Created"
          value={`${since(createdAt, now.value)} ago`}
          title={dateTime(createdAt)}
        />
        {endedAt === undefined ? (
          <Fact name="Expires in" value={until(expiresAt, now.value)} title={dateTime(expiresAt)} />
        ) : (
          <Fact name="Ended" value={endReason ?? dateTime(endedAt)} />
        )}
      </dl>
      {!isOver(info) && (
        <div class="session-actions">
          <button type="button" onClick={() => act(() => session.renew(), "The lease is renewed.")}>
            <Icon name="refresh" /> Renew
          </button>
          {status === "paused" ? (
            <button type="button" onClick={() => act(() => session.resume(), "Resumed.")}>
              <Icon name="runs" /> Resume
            </button>
          ) : (
            <button type="button" onClick={() => act(() => session.pause(), "Paused.")}>
              <Icon name="pause" /> Pause
            </button>
          )}
          <button type="button" class="danger" onClick={() => setDestroying(true)}>
            <Icon name="trash" /> Destroy
          </button>
        </div>
      )}
      {isDestroying && (
        <Confirm
          title="Destroy this session?"
          verb="Destroy"
          onConfirm={() => destroy(session)}
          onClose={() => setDestroying(false)}
        >
          Everything that runs in <span class="mono">{id}</span> ends, and its files are deleted.
          Files in workspaces stay.
        </Confirm>
      )}
    </div>
  );
}

function Fact(props: {
  readonly name: string;
  readonly value: string;
  readonly title?: string;
}): JSX.Element {
  return (
    <div title={props.title}>
      <dt>{props.name}</dt>
      <dd>{props.value}</dd>
    </div>
  );
}

function destroy(session: Session): void {
  attempt(async () => {
    await session.destroy();
    goTo("sessions");
  }, "The session is destroyed.");
}
