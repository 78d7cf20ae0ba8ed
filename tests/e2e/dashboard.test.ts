/** The dashboard of a real daemon in a real browser, used the way a person uses it. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { SandboxClient, type Session } from "@sandkasten/sdk";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestBrowser, type TestPage } from "../support/browser.ts";
import {
  columnsOf,
  eventually,
  overflowOf,
  screenOf,
  screenshot,
  seriousFaults,
  signIn,
} from "../support/dashboard-page.ts";
import { startNameServer } from "../support/name-server.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const opened = new AsyncDisposableStack();
let web: Server;
let webPort: number;
let daemon: TestDaemon;
let client: SandboxClient;
let session: Session;
let browser: TestBrowser;
let tab: TestPage;
let page: Page;

beforeAll(async () => {
  const names = opened.use(await startNameServer());
  web = createServer((_request, response) => response.end("x".repeat(3000)));
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  opened.defer(() => void web.close());
  opened.defer(() => web.closeAllConnections());
  webPort = (web.address() as AddressInfo).port;
  daemon = opened.use(
    await TestDaemon.start({
      settings: {
        NETWORK_ALLOW: `web.test:${webPort},127.0.0.1:${webPort}`,
        NETWORK_NAME_SERVERS: names.address,
      },
    }),
  );
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  browser = opened.use(await TestBrowser.start());
  tab = await browser.page({ viewport: { width: 1280, height: 800 } });
  ({ page } = tab);
});
afterAll(() => opened.disposeAsync());

const openTab = (name: string) =>
  page.getByRole("navigation", { name: "Parts of the session" }).getByText(name).click();
const openPage = (name: string) =>
  page.getByRole("navigation", { name: "Main" }).getByText(name).click();
const expectAccessible = async (of: Page = page) => expect(await seriousFaults(of)).toEqual([]);

describe("the dashboard", () => {
  it("refuses a key that the daemon does not know", async () => {
    await signIn(page, daemon, "wrong-key");
    await eventually(() => page.getByRole("alert").textContent()).toContain("does not know");
    await expectAccessible();
  });

  it("can be used by keyboard only, from signing in to typing in a terminal and leaving it", async () => {
    const { page: keys, problems } = await browser.page();
    await keys.goto(daemon.url);
    await keys.keyboard.type(`${daemon.apiKey}\n`);
    await keys.getByText("No active sessions").waitFor();
    await expectAccessible(keys);
    await keys.keyboard.press("n");
    await keys.getByRole("dialog").waitFor();
    await keys.keyboard.press("Tab");
    await keys.keyboard.type("first steps");
    await keys.keyboard.press("Tab");
    await keys.keyboard.press("Tab");
    await keys.keyboard.type(`web.test:${webPort} 127.0.0.1:${webPort}\n`);
    await keys.getByLabel(/^Terminal in/).waitFor();
    await keys.keyboard.type("echo $((6 * 7)) is the answer\n");
    await eventually(() => screenOf(keys).textContent()).toContain("42 is the answer");
    // Tab belongs to the terminal; Ctrl-M moves the focus out of it.
    await keys.keyboard.press("Control+m");
    await keys.keyboard.press("Tab");
    await keys.keyboard.press("Enter");
    await keys.getByText("This directory is empty").waitFor();
    expect(await keys.title()).toBe("first steps · Sandkasten");
    expect(problems).toEqual([]);
    await keys.close();
    session = await client.getSession(await onlySession());
  });

  it("colours a terminal, which is found again after leaving it", async () => {
    await signIn(page, daemon);
    await page.getByRole("link", { name: /^ses_/ }).click();
    await page.getByLabel(/^Terminal in/).waitFor();
    await page.keyboard.type("remembered=here; printf '\\e[38;2;10;90;30mtrue colour\\e[0m\\n'\n");
    const colour = `getComputedStyle([...document.querySelectorAll(".xterm-rows span")]
      .find(({ textContent }) => textContent === "true colour")).color`;
    await page.getByText("true colour", { exact: true }).waitFor();
    expect(await page.evaluate(colour)).toBe("rgb(10, 90, 30)");
    await expectAccessible();
    await openTab("Isolation");
    await page.getByRole("row", { name: /seccomp enforced/ }).waitFor();
    await expectAccessible();
    await openTab("Terminal");
    await page.getByLabel(/^Terminal in/).waitFor();
    await page.keyboard.type("clear; ls -la --color=always / | head -20; uname -sr; id\n");
    await eventually(() => screenOf(page).textContent()).toContain("uid=1000");
    await page.keyboard.type("echo still $remembered\n");
    await eventually(() => screenOf(page).textContent()).toContain("still here");
    await screenshot(page, "dashboard-terminal");
  });

  it("uploads a file, shows it, and saves changes to it", async () => {
    await openTab("Files");
    await page.getByTestId("upload").setInputFiles({
      name: "poem.txt",
      mimeType: "text/plain",
      buffer: Buffer.from("roses are red\n"),
    });
    await page.getByRole("button", { name: /^poem\.txt/ }).click();
    const editor = page.getByLabel("Content of poem.txt");
    await eventually(() => editor.inputValue()).toBe("roses are red\n");
    await editor.fill("violets are blue\n");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved", { exact: true }).waitFor();
    expect(await session.readText("poem.txt")).toBe("violets are blue\n");
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download", exact: true }).click();
    const stream = await (await download).createReadStream();
    expect(String(Buffer.concat(await Array.fromAsync(stream)))).toBe("violets are blue\n");
    // A file written by another client appears without a reload.
    await session.write("numbers.csv", "n,square\n1,1\n2,4\n");
    await page.getByRole("button", { name: /^numbers\.csv/ }).waitFor();
    await expectAccessible();
    await screenshot(page, "dashboard-files");
  });

  it("shows pictures, in which no scripts run", async () => {
    const picture = `<svg xmlns="http://www.w3.org/2000/svg" width="60" height="40">
      <script>parent.ran = 1; fetch("http://127.0.0.1:${webPort}/from-the-picture")</script>
      <rect width="60" height="40" style="fill: green" onload="globalThis.ran = 1"/></svg>`;
    await session.write("chart.svg", picture);
    await page.getByRole("button", { name: /^chart\.svg/ }).click();
    await page.getByRole("img", { name: "chart.svg" }).waitFor();
    const width = "document.querySelector('img.picture').naturalWidth";
    await eventually(() => page.evaluate(width)).toBe(60);
    expect(await page.evaluate("globalThis.ran")).toBeUndefined();
    await session.write("broken.png", "this is no picture");
    await page.getByRole("button", { name: /^broken\.png/ }).click();
    await page.getByText("The browser cannot show this picture.").waitFor();
    await session.write("data.bin", new Uint8Array([0, 1, 2]));
    await page.getByRole("button", { name: /^data\.bin/ }).click();
    await page.getByText("The file is not plain text.").waitFor();
    await page.getByRole("button", { name: "Delete data.bin" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: /^data\.bin/ }).waitFor({ state: "detached" });
    await expectAccessible();
  });

  it("neither loses unsaved changes nor overwrites those of others", async () => {
    const openPoem = () => page.getByRole("button", { name: /^poem\.txt/ }).click();
    await openPoem();
    await page.getByLabel("Content of poem.txt").fill("from the page\n");
    await page.getByRole("button", { name: /^numbers\.csv/ }).click();
    await page.getByLabel("Content of numbers.csv").waitFor();
    await openPoem();
    const editor = page.getByLabel("Content of poem.txt");
    await eventually(() => editor.inputValue()).toBe("from the page\n");
    await session.write("poem.txt", "changed elsewhere\n");
    await page.getByRole("button", { name: "Save" }).click();
    await eventually(() => page.getByRole("alert").textContent()).toContain("has changed");
    expect(await session.readText("poem.txt")).toBe("changed elsewhere\n");
    await page.getByRole("button", { name: "Discard my changes" }).click();
    await eventually(() => editor.inputValue()).toBe("changed elsewhere\n");
  });

  it("shows the output of a command while it runs, and again afterwards", async () => {
    await openTab("Commands");
    await page
      .getByLabel("Command", { exact: true })
      .fill("echo first; until [ -e go ]; do sleep 0.02; done; echo second >&2; exit 3");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await eventually(() => screenOf(page).textContent()).toContain("first");
    expect(await screenOf(page).textContent()).not.toContain("second");
    await session.write("go", "");
    await eventually(() => screenOf(page).textContent()).toContain("second");
    await page.getByRole("button", { name: /^exit 3 .*echo first/ }).waitFor();
    await page.getByRole("button", { name: "Replay" }).click();
    await eventually(() => screenOf(page).textContent()).toMatch(/first\s*second/);
    await expectAccessible();
  });

  it("shows which hosts the session connected to, and which were refused", async () => {
    await openTab("Network");
    await session.exec(`curl -s http://web.test:${webPort}/; curl -s http://evil.test/; true`);
    const row = (name: RegExp) => page.getByRole("row", { name });
    await eventually(() => row(/web\.test/).textContent()).toMatch(/allowed.*[23]\.\d KB$/);
    await eventually(() => row(/evil\.test/).textContent()).toContain("does not allow");
    // The isolation report has tried some connections, too.
    const refused = await row(/ refused /).count();
    expect(refused).toBeGreaterThan(0);
    expect(await page.locator(".cards").textContent()).toContain(`Refused${refused}`);
    await expectAccessible();
  });

  it("shows a web server of the session in a frame", async () => {
    await session.write("site/index.html", "<h1>Hello from the sandbox</h1>");
    await openTab("Ports");
    await page.getByText("Nothing listens").waitFor();
    await session.start(["python3", "-m", "http.server", "8000", "--directory", "site"]);
    await eventually(async () => {
      await page.getByRole("button", { name: "Refresh" }).click();
      return await page.getByRole("button", { name: "Preview" }).count();
    }).toBe(1);
    await page.getByRole("button", { name: "Preview" }).click();
    const frame = page.frameLocator("iframe.preview");
    await frame.getByRole("heading", { name: "Hello from the sandbox" }).waitFor();
    await expectAccessible();
  });

  it("draws usage over time, with lines at round values", async () => {
    await openTab("Usage");
    await eventually(() => page.locator(".chart canvas").count()).toBe(4);
    await eventually(() => page.locator(".chart").nth(1).textContent()).toMatch(/[\d.]+ MB$/);
    await expectAccessible();
  });

  it("keeps the list of sessions up to date automatically", async () => {
    await using shown = new AsyncDisposableStack();
    await openPage("Sessions");
    const other = await client.createSession({ metadata: { name: "pull request 42" } });
    const row = page.getByRole("row", { name: /pull request 42/ });
    await row.waitFor();
    await eventually(() => row.textContent()).toMatch(/running.*Memory [\d.]+ [KM]B/);
    await other.pause();
    await eventually(() => row.textContent()).toContain("paused");
    await expectAccessible();
    await screenshot(page, "dashboard-sessions", async () => {
      for (const name of ["data analysis", "web scraper", "nightly report"])
        shown.use(await client.createSession({ metadata: { name } }));
      await page.waitForTimeout(5000);
    });
    await shown.disposeAsync();
    await other.resume();
    await eventually(() => row.textContent()).toContain("running");
    await other.destroy();
    await row.waitFor({ state: "detached" });
    await page.keyboard.press("/");
    await page.keyboard.type("no such session");
    await page.getByText("No session matches").waitFor();
    await page.getByRole("searchbox").fill("first steps");
    await eventually(() => page.locator(".table-row").count()).toBe(1);
    await page.getByRole("searchbox").fill("");
  });

  it("shows images, workspaces and their files, the pool and the daemon over time", async () => {
    await openPage("Images");
    await page.getByRole("row", { name: /host/ }).waitFor();
    await eventually(() => columnsOf(page)).toBe(6);
    await expectAccessible();
    await openPage("Workspaces");
    await page.getByText("No workspaces").waitFor();
    await client.workspaces.create("notes");
    await client.workspaces.files("notes").write("todo.md", "- [ ] everything\n");
    await openPage("Images");
    await openPage("Workspaces");
    await page.getByRole("row", { name: /notes/ }).getByRole("button", { name: "Files" }).click();
    await page.getByRole("button", { name: /^todo\.md/ }).click();
    await eventually(() => page.getByLabel("Content of todo.md").inputValue()).toContain("every");
    await expectAccessible();
    await page.getByRole("row", { name: /notes/ }).getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No workspaces").waitFor();
    await openPage("Overview");
    await eventually(() => page.locator(".chart canvas").count()).toBe(6);
    await page
      .getByRole("img", { name: /^Sandboxes ready in the pool over time, now 0/ })
      .waitFor();
    await page.getByText("exec.ended").first().waitFor();
    await expectAccessible();
    await screenshot(page, "dashboard-overview", async () => {
      const shown = new AsyncDisposableStack();
      for (let count = 0; count < 4; count++) {
        const busy = shown.use(await client.createSession());
        await busy.start("seq 2000; sleep 20");
        await page.waitForTimeout(7000);
      }
      return shown;
    });
  });

  it("can be used on a phone, in dark mode", async () => {
    const { page: phone, problems } = await browser.page({
      viewport: { width: 390, height: 780 },
      colorScheme: "dark",
      hasTouch: true,
      isMobile: true,
    });
    await signIn(phone, daemon);
    const row = phone.getByRole("row", { name: /first steps/ });
    await eventually(() => row.textContent()).toMatch(/Memory [\d.]+ [KM]B/);
    expect(await phone.evaluate("document.documentElement.dataset.theme")).toBe("dark");
    await expectAccessible(phone);
    await screenshot(phone, "dashboard-phone");
    await client.workspaces.create("on-the-phone");
    for (const [place, text] of [
      ["overview", "Sandboxes ready in the pool"],
      ["images", "everyone"],
      ["workspaces", "on-the-phone"],
      [`sessions/${session.id}/files`, "poem.txt"],
      [`sessions/${session.id}/network`, "evil.test"],
      [`sessions/${session.id}/isolation`, "seccomp"],
    ] as const) {
      await phone.goto(`${daemon.url}/#/${place}`);
      await phone.getByText(text).first().waitFor();
      expect([place, await overflowOf(phone)]).toEqual([place, 0]);
      await expectAccessible(phone);
    }
    // The table of the last page is a list of cards.
    expect(await columnsOf(phone)).toBe(1);
    await phone.goto(`${daemon.url}/#/sessions/${session.id}/terminal`);
    await phone.getByLabel(/^Terminal in/).waitFor();
    await phone.keyboard.type("sleep 600\n");
    await phone.getByRole("button", { name: "Ctrl-C" }).tap();
    await phone.keyboard.type("echo $?\n");
    await eventually(() => screenOf(phone).textContent()).toContain("130");
    expect(await overflowOf(phone)).toBe(0);
    await phone.getByRole("button", { name: "Use light colours" }).tap();
    expect(await phone.evaluate("document.documentElement.dataset.theme")).toBe("light");
    await expectAccessible(phone);
    expect(problems).toEqual([]);
    await phone.close();
  });

  it("loads less than 300 KB, including the terminal", async () => {
    const { page: other } = await browser.page();
    const loaded: Promise<number>[] = [];
    other.on("requestfinished", (request) => {
      if (/\/$|\/assets\//.test(new URL(request.url()).pathname))
        loaded.push(request.sizes().then(({ responseBodySize }) => responseBodySize));
    });
    await signIn(other, daemon);
    await other.getByRole("link", { name: /^ses_/ }).click();
    await other.getByLabel(/^Terminal in/).waitFor();
    const sizes = await Promise.all(loaded);
    expect(sizes.length).toBeGreaterThan(5);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(300_000);
    await other.close();
  });

  it("destroys the session, whose commands can still be read, and says what is missing", async () => {
    await page.goto(`${daemon.url}/#/sessions/${session.id}`);
    await page.getByRole("button", { name: "Destroy" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Destroy" }).click();
    await page.getByText("No active sessions").waitFor();
    expect((await session.info()).status).toBe("destroyed");
    await page.goto(`${daemon.url}/#/sessions/${session.id}/files`);
    await page.getByText("The session has ended").waitFor();
    await openTab("Commands");
    await page.getByRole("button", { name: /^exit 3 .*echo first/ }).waitFor();
    await page.goto(`${daemon.url}/#/sessions/ses_missing`);
    await eventually(() => page.getByRole("alert").textContent()).toContain("ses_missing");
    await expectAccessible();
  });

  it("signs out when its key is revoked, and in again with another one", async () => {
    const { key, id } = await client.keys.create("for-a-while", { scope: "use" });
    const { page: other } = await browser.page();
    await signIn(other, daemon, key);
    await other.getByText("No active sessions").waitFor();
    await client.keys.revoke(id);
    await other.getByText("no longer accepts the key").waitFor();
    const { key: renewed } = await client.keys.create("for-a-while-2", { scope: "use" });
    await other.getByLabel("API key").fill(renewed);
    await other.getByRole("button", { name: "Sign in" }).click();
    await other.getByText("No active sessions").waitFor();
    await other.close();
  });

  it("has a policy without exceptions, and reports no error and no violation of it", async () => {
    const policy = (await fetch(daemon.url)).headers.get("content-security-policy");
    expect(policy).toMatch(/script-src 'self'; style-src 'self';/);
    expect(policy).not.toContain("unsafe");
    expect(tab.problems).toEqual([]);
  });
});

async function onlySession(): Promise<string> {
  const [found, ...others] = await Array.fromAsync(client.sessions({ status: "running" }));
  if (found === undefined || others.length > 0) throw new Error("there is not one session");
  return found.id;
}
