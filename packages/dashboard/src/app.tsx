/** The frame around every page: navigation, the current user, and the state of the connection. */
import type { JSX } from "preact";
import { lazy, Suspense } from "preact/compat";
import { ErrorBoundary } from "./parts/error-boundary.tsx";
import { Icon, type IconName } from "./parts/icons.tsx";
import { Loading } from "./parts/notice.tsx";
import { Toasts } from "./parts/toasts.tsx";
import { SessionsPage } from "./pages/sessions.tsx";
import { SignIn } from "./pages/sign-in.tsx";
import { linkTo, place } from "./routing.ts";
import { connection, signOut } from "./state/connection.ts";
import { feedState } from "./state/feed.ts";
import { theme, toggleTheme } from "./theme.ts";
import icon from "./icon.svg";

const SessionPage = lazy(() => import("./pages/session.tsx").then(({ SessionPage: page }) => page));
const ImagesPage = lazy(() => import("./pages/images.tsx").then(({ ImagesPage: page }) => page));
const WorkspacesPage = lazy(() =>
  import("./pages/workspaces.tsx").then(({ WorkspacesPage: page }) => page),
);
const OverviewPage = lazy(() =>
  import("./pages/overview.tsx").then(({ OverviewPage: page }) => page),
);
const RunsPage = lazy(() => import("./pages/runs.tsx").then(({ RunsPage: page }) => page));

interface Entry {
  readonly name: string;
  readonly title: string;
  readonly icon: IconName;
}

const ENTRIES: readonly Entry[] = [
  { name: "sessions", title: "Sessions", icon: "sessions" },
  { name: "overview", title: "Overview", icon: "overview" },
  { name: "images", title: "Images", icon: "images" },
  { name: "workspaces", title: "Workspaces", icon: "workspaces" },
  { name: "runs", title: "Runs", icon: "runs" },
];

const FEED_WORDS = { live: "Live", connecting: "Connecting", lost: "Connection lost" } as const;

export function App(): JSX.Element {
  if (connection.value === undefined) return <SignIn />;
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={focusMain}>
        Skip to content
      </a>
      <Navigation />
      <main id="main" tabIndex={-1}>
        <ErrorBoundary key={place.value[0]}>
          <Suspense fallback={<Loading />}>
            <Page />
          </Suspense>
        </ErrorBoundary>
      </main>
      <Toasts />
    </div>
  );
}

function Navigation(): JSX.Element {
  const { agents, version } = connection.value ?? {};
  const current = place.value[0] ?? "sessions";
  const entries = ENTRIES.filter(({ name }) => name !== "runs" || agents !== undefined);
  return (
    <header class="side">
      <a class="brand" href={linkTo("sessions")}>
        <img src={icon} alt="" width="24" height="24" />
        <span>Sandkasten</span>
      </a>
      <nav aria-label="Main">
        <ul>
          {entries.map(({ name, title, icon: picture }) => (
            <li key={name}>
              <a href={linkTo(name)} aria-current={current === name ? "page" : undefined}>
                <Icon name={picture} />
                <span>{title}</span>
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="side-foot">
        <p class="side-links">
          <a href="/guide/" target="_blank" rel="noopener">
            Guide <Icon name="external" />
          </a>
          <a href="/docs/" target="_blank" rel="noopener">
            API reference <Icon name="external" />
          </a>
        </p>
        <p class={`feed ${feedState.value}`} role="status">
          {FEED_WORDS[feedState.value]}
        </p>
        <p class="version">
          {version?.version} · {version?.backend}
        </p>
        <div class="side-buttons">
          <button
            type="button"
            class="plain"
            onClick={toggleTheme}
            aria-label={`Use ${theme.value === "dark" ? "light" : "dark"} colours`}
          >
            <Icon name={theme.value === "dark" ? "sun" : "moon"} />
          </button>
          <button type="button" class="plain" onClick={() => signOut()} aria-label="Sign out">
            <Icon name="leave" />
          </button>
        </div>
      </div>
    </header>
  );
}

function Page(): JSX.Element {
  const [name = "sessions", id, ...rest] = place.value;
  if (name === "sessions" && id !== undefined)
    return <SessionPage key={id} id={id} tab={rest[0] ?? "terminal"} />;
  if (name === "overview") return <OverviewPage />;
  if (name === "images") return <ImagesPage />;
  if (name === "workspaces") return <WorkspacesPage />;
  if (name === "runs" && connection.value?.agents !== undefined)
    return <RunsPage agents={connection.value.agents} kind={id} runId={rest[0]} />;
  return <SessionsPage />;
}

/** The URL's fragment is used for routing, so this link must not change it. */
function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
