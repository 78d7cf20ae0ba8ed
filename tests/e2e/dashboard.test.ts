/** The dashboard of a real daemon in a real browser, used as a person uses it. */
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ServiceProcesses } from "../../packages/agents/src/testing/service-processes.ts";
import type { Page } from "playwright-core";
import { TestBrowser, type TestPage } from "../support/browser.ts";
import {
  eventually,
  screenOf,
  screenshot,
  seriousFaults,
  signIn,
} from "../support/dashboard-page.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const WORKFLOW = `id: publish
name: Publish a report
steps:
  - id: ask
    type: approval
    message: Publish the report of today?
`;

const opened = new AsyncDisposableStack();
let daemon: TestDaemon;
let client: SandboxClient;
let agents: Awaited<ReturnType<ServiceProcesses["start"]>>;
let browser: TestBrowser;
let tab: TestPage;
let page: Page;

beforeAll(async () => {
  const services = opened.use(
    await ServiceProcesses.create({
      agents: {},
      workflows: { "publish.yaml": WORKFLOW },
      // The workflow needs no sandbox.
      daemon: { url: "http://127.0.0.1:9", apiKey: "not-needed-here" },
    }),
  );
  agents = await services.start();
  daemon = opened.use(
    await TestDaemon.start({ settings: { DASHBOARD_AGENTS_URL: agents.client.baseUrl } }),
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

describe("the dashboard", () => {
  it("lets nobody in without a key that the daemon knows", async () => {
    await signIn(page, daemon, "wrong-key");
    await eventually(() => page.getByRole("alert").textContent()).toContain("does not know");
    expect(await seriousFaults(page)).toEqual([]);
  });

  it("creates a session and types in its terminal", async () => {
    await signIn(page, daemon);
    await page.getByRole("button", { name: "New session" }).click();
    await page.getByLabel("Name").fill("first steps");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByLabel(/^Terminal in/).waitFor();
    await page.keyboard.type("echo $((6 * 7)) is the answer\n");
    await eventually(() => screenOf(page).textContent()).toContain("42 is the answer");
    await page.keyboard.type("printf '\\e[38;2;10;90;30mtrue colour\\e[0m\\n'\n");
    await eventually(() =>
      page.getByText("true colour", { exact: true }).getAttribute("style"),
    ).toContain("rgb(10, 90, 30)");
    expect(await seriousFaults(page)).toEqual([]);
    await page.keyboard.type("clear; ls -la --color=always / | head -20; uname -sr; id\n");
    await eventually(() => screenOf(page).textContent()).toContain("uid=");
    await screenshot(page, "dashboard-terminal");
  });

  it("finds its terminal again after a look at something else", async () => {
    await page.keyboard.type("clear; remembered=here\n");
    await openTab("Isolation");
    await page
      .getByRole("row", { name: /seccomp/i })
      .first()
      .waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await openTab("Terminal");
    await page.getByLabel(/^Terminal in/).waitFor();
    await page.keyboard.type("echo still $remembered\n");
    await eventually(() => screenOf(page).textContent()).toContain("still here");
  });

  it("uploads a file, shows it, and saves what is changed in it", async () => {
    const session = await client.getSession(await openSession());
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
    // A file created by another command appears automatically.
    await session.write("numbers.csv", "n,square\n1,1\n2,4\n");
    await page.getByRole("button", { name: /^numbers\.csv/ }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await screenshot(page, "dashboard-files");
  });

  it("does not overwrite what has changed in the sandbox meanwhile", async () => {
    const session = await client.getSession(await openSession());
    await session.write("poem.txt", "changed elsewhere\n");
    await page.getByLabel("Content of poem.txt").fill("from the page\n");
    await page.getByRole("button", { name: "Save" }).click();
    await eventually(() => page.getByRole("alert").textContent()).toContain("has changed");
    expect(await session.readText("poem.txt")).toBe("changed elsewhere\n");
  });

  it("shows the output of a command while it runs, and again afterwards", async () => {
    const session = await client.getSession(await openSession());
    await openTab("Commands");
    await page
      .getByLabel("Command", { exact: true })
      .fill("echo first; until [ -e go ]; do sleep 0.02; done; echo second >&2");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await eventually(() => screenOf(page).textContent()).toContain("first");
    expect(await screenOf(page).textContent()).not.toContain("second");
    await session.write("go", "");
    await eventually(() => screenOf(page).textContent()).toContain("second");
    await page.getByRole("button", { name: /^succeeded .*echo first/ }).waitFor();
    await page.getByRole("button", { name: "Replay" }).click();
    await eventually(() => screenOf(page).textContent()).toMatch(/first\s*second/);
    expect(await seriousFaults(page)).toEqual([]);
  });

  it("keeps the list of sessions up to date by itself", async () => {
    await openPage("Sessions");
    const other = await client.createSession({ metadata: { name: "made elsewhere" } });
    const row = page.getByRole("row", { name: /made elsewhere/ });
    await row.waitFor();
    await eventually(() => row.textContent()).toMatch(/running.*Memory [\d.]+ MB/);
    await other.pause();
    await eventually(() => row.textContent()).toContain("paused");
    await other.resume();
    await eventually(() => row.textContent()).toContain("running");
    expect(await seriousFaults(page)).toEqual([]);
    await screenshot(page, "dashboard-sessions");
    await other.destroy();
    await row.waitFor({ state: "detached" });
  });

  it("is used by keyboard: search, go through rows, open one", async () => {
    await page.keyboard.press("/");
    await page.keyboard.type("first steps");
    const row = page.getByRole("row", { name: /first steps/ });
    await eventually(() => page.locator(".table-row").count()).toBe(1);
    await row.getByRole("link").focus();
    await page.keyboard.press("Enter");
    await page.getByLabel(/^Terminal in/).waitFor();
    await openPage("Sessions");
    await page.getByRole("searchbox").fill("");
  });

  it("shows usage, connections, images, workspaces and the daemon over time", async () => {
    const id = await openSession();
    await page.goto(`${daemon.url}/#/sessions/${id}/usage`);
    await eventually(() => page.locator(".chart canvas").count()).toBe(4);
    await eventually(() => page.locator(".chart").nth(1).textContent()).toMatch(/[\d.]+ MB$/);
    expect(await seriousFaults(page)).toEqual([]);
    await openTab("Network");
    await page.getByText("no network but loopback").waitFor();
    await openPage("Images");
    await page.getByRole("row", { name: /host/ }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await openPage("Workspaces");
    await page.getByText("No workspaces").waitFor();
    await openPage("Overview");
    await eventually(() => page.locator(".chart canvas").count()).toBe(5);
    await page.getByText("exec.ended").first().waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await screenshot(page, "dashboard-overview");
  });

  it("approves a step of a workflow that waits for a person", async () => {
    const runId = await agents.client.runWorkflow("publish");
    await eventually(async () => (await agents.client.workflowRun(runId)).status).toBe(
      "waiting_approval",
    );
    await openPage("Runs");
    await page.getByRole("link", { name: /waiting approval publish/ }).click();
    await page.getByText("Publish the report of today?").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await screenshot(page, "dashboard-runs");
    await page.getByLabel("Comment").fill("looks right");
    await page.getByRole("button", { name: "Approve" }).click();
    await page.getByRole("link", { name: /succeeded publish/ }).waitFor();
    expect((await agents.client.workflowRun(runId)).status).toBe("succeeded");
  });

  it("has no runs for a key that is no administrator's", async () => {
    const { key } = await client.keys.create("user", { scope: "use" });
    const { page: other } = await browser.page();
    await signIn(other, daemon, key);
    await other.getByRole("heading", { name: "Sessions" }).waitFor();
    expect(await other.getByRole("link", { name: "Runs" }).count()).toBe(0);
    const answer = await daemon.fetch("/v1/agent-service/v1/workflow-runs", {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(answer.status).toBe(403);
    await other.close();
  });

  it("can be used on a phone, in the dark", async () => {
    const { page: phone, problems } = await browser.page({
      viewport: { width: 390, height: 780 },
      colorScheme: "dark",
      hasTouch: true,
      isMobile: true,
    });
    await signIn(phone, daemon);
    await phone.getByRole("row", { name: /first steps/ }).waitFor();
    expect(await phone.evaluate("document.documentElement.dataset.theme")).toBe("dark");
    expect(await phone.evaluate("document.documentElement.scrollWidth")).toBe(390);
    expect(await seriousFaults(phone)).toEqual([]);
    await screenshot(phone, "dashboard-phone");
    await phone
      .getByRole("row", { name: /first steps/ })
      .getByRole("link")
      .tap();
    await phone.getByLabel(/^Terminal in/).waitFor();
    expect(await phone.evaluate("document.documentElement.scrollWidth")).toBe(390);
    expect(await seriousFaults(phone)).toEqual([]);
    await phone.getByRole("button", { name: "Use light colours" }).tap();
    expect(await phone.evaluate("document.documentElement.dataset.theme")).toBe("light");
    expect(problems).toEqual([]);
    await phone.close();
  });

  it("loads less than 300 KB, the terminal included", async () => {
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

  it("destroys the session", async () => {
    const id = await openSession();
    await page.goto(`${daemon.url}/#/sessions/${id}`);
    await page.getByRole("button", { name: "Destroy" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Destroy" }).click();
    await page.getByText("No active sessions").waitFor();
    expect((await client.getSession(id)).lastInfo.status).toBe("destroyed");
  });

  it("signs out when its key is revoked", async () => {
    const { key, id } = await client.keys.create("for-a-while", { scope: "use" });
    const { page: other } = await browser.page();
    await signIn(other, daemon, key);
    await other.getByText("No active sessions").waitFor();
    await client.keys.revoke(id);
    await other.getByText("no longer accepts the key").waitFor();
    await other.close();
  });

  it("reports no error and no refusal of its policy", () => {
    expect(tab.problems).toEqual([]);
  });
});

/** Opens the only session. */
async function openSession(): Promise<string> {
  const [session] = await Array.fromAsync(client.sessions({ status: "running" }));
  if (session === undefined) throw new Error("there is no session");
  return session.id;
}
