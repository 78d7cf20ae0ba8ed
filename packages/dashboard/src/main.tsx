/** Starts the dashboard. */
import { render } from "preact";
import { App } from "./app.tsx";
import { startFeed } from "./state/feed.ts";
import { startSessions } from "./state/sessions.ts";
import { startUsage } from "./state/usage.ts";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/parts.css";
import "./styles/session.css";
import { startTheme } from "./theme.ts";

startTheme();
startSessions();
startUsage();
startFeed();
const root = document.getElementById("app");
if (root === null) throw new Error("the page has no place for the dashboard");
render(<App />, root);
