/* What code of a sandbox would try in a browser where somebody is signed in to the dashboard. */
const daemon = location.origin.endsWith(".localhost:" + location.port)
  ? `http://127.0.0.1:${location.port}`
  : location.origin;
const session = /ses[-_]([0-9a-f]{24})/.exec(location.href)[1];
const pty = `${daemon.replace("http", "ws")}/v1/sessions/ses_${session}/pty`;

const attacks = {
  "reads the dashboard's page": () => String(parent === self ? opener.document : parent.document),
  "reads the dashboard's storage": () => JSON.stringify(Object.entries(parent.localStorage)),
  "reads storage of its own address": () => JSON.stringify(Object.entries(localStorage)),
  "reads session storage of its own address": () => JSON.stringify(Object.entries(sessionStorage)),
  "reads cookies": () => document.cookie,
  "lists sessions": async () =>
    (await fetch(`${daemon}/v1/sessions`, { credentials: "include" })).status,
  "lists sessions without being able to look": async () =>
    (await fetch(`${daemon}/v1/sessions`, { credentials: "include", mode: "no-cors" })).type,
  "creates a session": async () =>
    (await fetch(`${daemon}/v1/sessions`, { method: "POST", body: "{}", credentials: "include" }))
      .status,
  "creates a session blindly": async () =>
    (
      await fetch(`${daemon}/v1/sessions`, {
        method: "POST",
        body: "{}",
        credentials: "include",
        mode: "no-cors",
      })
    ).type,
  "opens a terminal": () =>
    new Promise((resolve, reject) => {
      const socket = new WebSocket(pty, ["sandkasten.v1"]);
      socket.onopen = () => resolve("open");
      socket.onerror = () => reject(new Error("refused"));
    }),
  "frames the dashboard": () =>
    new Promise((resolve, reject) => {
      const frame = document.createElement("iframe");
      frame.src = `${daemon}/`;
      frame.onload = () => {
        try {
          resolve(frame.contentDocument.body.textContent);
        } catch {
          reject(new Error("refused"));
        }
      };
      document.body.append(frame);
    }),
  "registers a service worker": async () =>
    (await navigator.serviceWorker.register("attack.js")).scope,
  "sends the tab elsewhere": () => {
    if (top === self) throw new Error("it is the tab");
    top.location.href = "about:blank#stolen";
    return "done";
  },
};

async function attackAll() {
  const results = {};
  for (const [name, attack] of Object.entries(attacks)) {
    try {
      results[name] = await attack();
    } catch {
      results[name] = "refused";
    }
  }
  await fetch("report", { method: "POST", body: JSON.stringify(results) });
}

addEventListener("load", () => void attackAll());
