/** Runs of agents and workflows on the dashboard: a real agent service, whose model is scripted. */
import { SandboxClient } from "@sandkasten/sdk";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type ServiceProcess,
  ServiceProcesses,
} from "../../packages/agents/src/testing/service-processes.ts";
import { TestBrowser, type TestPage } from "../support/browser.ts";
import {
  eventually,
  overflowOf,
  screenshot,
  seriousFaults,
  signIn,
} from "../support/dashboard-page.ts";
import { freePort } from "../support/free-port.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const KEY = "sk-sandbox-of-the-administrator";
const CODER = `---
model: openai/tiny
sandbox: { mode: code }
---
Work.
{{role "user"}}
{{userInput}}
`;
const WORKFLOW = `id: publish
name: Publish a report
steps:
  - id: write
    type: agent
    agent: coder
    task: Count the rows
  - id: ask
    type: approval
    message: Publish the report of today?
`;
/** Announces its work, and does it when the test allows it. */
const PROGRAM = `import os, time
print("reading orders.csv", flush=True)
while not os.path.exists("go"): time.sleep(0.02)
print("42 rows")
`;
const WORK = [
  {
    text: "I write a program that counts the rows.",
    calls: [{ name: "sandbox_fs_write", arguments: { path: "count.py", content: PROGRAM } }],
  },
  {
    text: "Now I run it.",
    calls: [{ name: "sandbox_exec", arguments: { command: "python3 count.py" } }],
  },
  { text: "The table has 42 rows." },
];

const opened = new AsyncDisposableStack();
let services: ServiceProcesses;
let agents: ServiceProcess;
let daemon: TestDaemon;
let client: SandboxClient;
let browser: TestBrowser;
let tab: TestPage;
let page: Page;

beforeAll(async () => {
  // Each of the two needs the other's address.
  const port = await freePort();
  services = opened.use(
    await ServiceProcesses.create({
      agents: { coder: CODER },
      workflows: { "publish.yaml": WORKFLOW },
      daemon: { url: `http://127.0.0.1:${port}`, apiKey: KEY },
    }),
  );
  agents = await services.start();
  daemon = opened.use(
    await TestDaemon.start({
      settings: {
        LISTEN: `127.0.0.1:${port}`,
        API_KEY: KEY,
        DASHBOARD_AGENTS_URL: agents.client.baseUrl,
      },
    }),
  );
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: KEY });
  browser = opened.use(await TestBrowser.start());
  tab = await browser.page({ viewport: { width: 1280, height: 800 } });
  ({ page } = tab);
  await signIn(page, daemon);
});
afterAll(() => opened.disposeAsync());

/** Lets the command in that sandbox continue. */
async function letGo(): Promise<void> {
  const [info] = await Array.fromAsync(client.sessions({ status: "running" }));
  await (await client.getSession(info?.id ?? "")).write("go", "");
}

describe("the runs on the dashboard", () => {
  it("show what an agent says and does, live", async () => {
    await page.getByRole("link", { name: "Runs" }).click();
    await page.getByText("No runs yet").first().waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    services.model.play(WORK);
    await agents.client.execute("coder", { task: "How many rows?" });
    // The run's sandbox appears in the event feed, so the run appears without a reload.
    await page.getByRole("link", { name: /running coder/ }).click();
    await page.getByText("I write a program that counts the rows.").waitFor();
    const call = page.locator(".transcript .call");
    await eventually(() => call.first().textContent()).toMatch(/^succeeded\s*sandbox_fs_write/);
    const printed = call.last().locator(".printed");
    await eventually(() => printed.textContent()).toBe("reading orders.csv\n");
    expect(await call.last().textContent()).toMatch(/^running\s*sandbox_exec/);
    await letGo();
    await eventually(() => printed.textContent()).toBe("reading orders.csv\n42 rows\n");
    await eventually(() => call.last().textContent()).toMatch(/^succeeded\s*sandbox_exec/);
    await page.getByText("The table has 42 rows.").waitFor();
    await page.getByRole("link", { name: /succeeded coder/ }).waitFor();
    await eventually(() => page.locator(".run").textContent()).toMatch(/3 turns/);
    expect(await seriousFaults(page)).toEqual([]);
  });

  it("approve a step of a workflow that waits for a person", async () => {
    services.model.play(WORK);
    const runId = await agents.client.runWorkflow("publish");
    await page.getByRole("link", { name: /running publish/ }).click();
    const step = (id: string) => page.locator(".step", { hasText: id });
    await eventually(() => step("write").textContent()).toContain("running");
    await step("write").getByRole("link", { name: "Agent run" }).click();
    await page.locator(".printed").waitFor();
    await page.goBack();
    await letGo();
    await eventually(() => step("write").textContent()).toContain("succeeded");
    await page.getByText("Publish the report of today?").waitFor();
    await page.getByRole("link", { name: /waiting approval publish/ }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await screenshot(page, "dashboard-approval");
    await page.getByLabel("Comment").fill("looks right");
    await page.getByRole("button", { name: "Approve" }).click();
    await page.getByRole("link", { name: /succeeded publish/ }).waitFor();
    const { status, steps } = await agents.client.workflowRun(runId);
    expect([status, JSON.stringify(steps)]).toEqual([
      "succeeded",
      expect.stringContaining("looks right"),
    ]);
    await step("write").getByRole("link", { name: "Agent run" }).click();
    await page.getByText("The table has 42 rows.").waitFor();
    await screenshot(page, "dashboard-runs", () =>
      page.locator(".toast").waitFor({ state: "detached" }),
    );
  });

  it("reject a step, and cancel an agent", async () => {
    services.model.play([{ text: "Nothing to do." }]);
    const workflowRun = await agents.client.runWorkflow("publish");
    await eventually(async () => (await agents.client.workflowRun(workflowRun)).status).toBe(
      "waiting_approval",
    );
    await page.goto(`${daemon.url}/#/runs/workflow/${workflowRun}`);
    await page.getByRole("button", { name: "Reject" }).click();
    await eventually(async () => (await agents.client.workflowRun(workflowRun)).status).toBe(
      "failed",
    );
    await page.locator(".run-head").getByText("failed").waitFor();
    services.model.play([{ text: "I think", hang: true }]);
    const run = await agents.client.execute("coder", { task: "think" });
    await page.goto(`${daemon.url}/#/runs/agent/${run}`);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.locator(".run-head").getByText("cancelled").waitFor();
    expect((await agents.client.run(run)).status).toBe("cancelled");
    expect(await seriousFaults(page)).toEqual([]);
  });

  it("fit on a phone", async () => {
    const { page: phone, problems } = await browser.page({
      viewport: { width: 390, height: 780 },
      colorScheme: "dark",
      hasTouch: true,
      isMobile: true,
    });
    await signIn(phone, daemon);
    await phone.getByRole("link", { name: "Runs" }).tap();
    await phone
      .getByRole("link", { name: /succeeded coder/ })
      .last()
      .tap();
    await phone.getByText("The table has 42 rows.").waitFor();
    expect(await overflowOf(phone)).toBe(0);
    expect(await seriousFaults(phone)).toEqual([]);
    await phone.getByRole("link", { name: "Close the run" }).tap();
    await phone.getByRole("heading", { name: "Workflows" }).waitFor();
    expect(problems).toEqual([]);
    await phone.close();
  });

  it("are hidden from a key that is not an administrator's", async () => {
    const { key } = await client.keys.create("user", { scope: "use" });
    const { page: other } = await browser.page();
    await signIn(other, daemon, key);
    await other.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    expect(await other.getByRole("link", { name: "Runs" }).count()).toBe(0);
    const answer = await daemon.fetch("/v1/agent-service/v1/workflow-runs", {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(answer.status).toBe(403);
    await other.close();
  });

  it("report no error and no violation of the page's policy", () => {
    expect(tab.problems).toEqual([]);
  });
});
