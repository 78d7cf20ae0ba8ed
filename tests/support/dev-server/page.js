// What a page in a preview sees, and what it gets when it tries more. The query names the daemon.
const outcome = async (attempt) => {
  try {
    return await attempt();
  } catch (error) {
    return error.name;
  }
};
const statusOf = (url, init) => outcome(async () => (await fetch(url, init)).status);

const { daemon, other, name: pageName } = Object.fromEntries(new URLSearchParams(location.search));
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
    api: await statusOf(`${daemon}/v1/sessions`, withAll),
    docs: await statusOf(`${daemon}/docs`, withAll),
    created: await statusOf(`${daemon}/v1/sessions`, {
      ...withAll,
      mode: "no-cors",
      method: "POST",
      body: "{}",
    }),
    otherPort: await statusOf(other, withAll),
    ownApi: await statusOf("/v1/sessions", withAll),
    parent: await outcome(() => typeof top.document),
  });

async function report(seen) {
  await fetch(`report/${pageName}`, { method: "POST", body: JSON.stringify(seen) });
}
