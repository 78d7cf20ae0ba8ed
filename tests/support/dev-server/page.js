// What a page in a preview sees, and what it gets when it tries more. The query names the daemon.
const outcome = async (attempt) => {
  try {
    return await attempt();
  } catch (error) {
    return error.name;
  }
};
const status = (url, init) => outcome(async () => (await fetch(url, init)).status);

const { daemon, other, name } = Object.fromEntries(new URLSearchParams(location.search));
const withAll = { credentials: "include" };
const hot = new URL("hmr", location.href);
hot.protocol = "ws:";
const socket = new WebSocket(hot);
socket.onmessage = ({ data }) => data === "reload" && location.reload();
socket.onerror = () => report({ failure: "no socket" });
socket.onopen = async () =>
  report({
    heading: document.querySelector("h1").textContent,
    origin: self.origin,
    address: location.href,
    cookie: await outcome(() => document.cookie),
    storage: await outcome(() => typeof localStorage),
    worker: await outcome(async () => typeof (await navigator.serviceWorker.register("page.js"))),
    api: await status(`${daemon}/v1/sessions`, withAll),
    docs: await status(`${daemon}/docs`, withAll),
    created: await status(`${daemon}/v1/sessions`, {
      ...withAll,
      mode: "no-cors",
      method: "POST",
      body: "{}",
    }),
    otherPort: await status(other, withAll),
    ownApi: await status("/v1/sessions", withAll),
    parent: await outcome(() => typeof top.document),
  });

async function report(seen) {
  await fetch(`report/${name}`, { method: "POST", body: JSON.stringify(seen) });
}
