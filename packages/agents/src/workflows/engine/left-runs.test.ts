/** What one process leaves of a run, and what it must not touch when another one has it. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { AgentRunError } from "../../runs/agent-executor.ts";
import { ProcessRegistry } from "../../store/process-registry.ts";
import { type Agent, EngineFixture, hang } from "../testing/engine-fixture.ts";
import { ManualClock } from "../testing/manual-clock.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-left-runs-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

it("attempts of an earlier process count as attempts", async () => {
  const path = join(directory, "attempts.db");
  const fail: Agent = () => {
    throw new AgentRunError("MODEL_UNAVAILABLE", "The model did not answer.");
  };
  const agents = { fail };
  // Its clock is stopped, so the pause does not end before the first process does.
  const clock = new ManualClock();
  let runId: string;
  {
    await using left = new EngineFixture({ path, agents, clock });
    runId = left.submit(
      "steps: [{ id: a, agent: fail, task: x, retry: { max_attempts: 2, backoff: 1s, jitter: 0 } }]",
    );
    await left.until(runId, () => left.shown(runId).includes("a:1 retrying"));
    expect(left.started).toEqual(["fail"]);
  }
  clock.turn(1000);
  await using next = new EngineFixture({ path, agents, clock });
  expect((await next.until(runId)).status).toBe("failed");
  expect(next.started).toEqual(["fail"]);
});

it.each([
  ["approval", "{ id: a, type: approval, timeout: 1d }"],
  [
    "parallel",
    "{ id: a, type: parallel, timeout: 1d, branches: [{ name: b, steps: [{ id: i, type: approval }] }] }",
  ],
  [
    "foreach",
    "{ id: a, type: foreach, timeout: 1d, items: '[1]', steps: [{ id: i, type: approval }] }",
  ],
  [
    "try",
    "{ id: a, type: try, timeout: 1d, try: [{ id: i, type: approval }], catch: [{ id: c, type: end }] }",
  ],
])("the timeout of %s continues from its start in an earlier process", async (kind, step) => {
  const path = join(directory, `timeout-${kind}.db`);
  const clock = new ManualClock();
  const halfDayMs = 43_200_000;
  let runId: string;
  {
    await using left = new EngineFixture({ path, clock });
    runId = left.submit(`steps: [${step}]`);
    await left.until(runId, ({ status }) => status === "waiting_approval");
    await expect.poll(() => clock.waits).toEqual([2 * halfDayMs]);
  }
  clock.turn(halfDayMs);
  await using next = new EngineFixture({ path, clock });
  await expect.poll(() => clock.waits).toEqual([halfDayMs]);
  clock.turn(halfDayMs);
  expect((await next.until(runId)).error).toMatchObject({ code: "TIMEOUT", step: "a" });
});

it("a process that cancels a run while another one takes it destroys no sandbox", async () => {
  const requests: string[] = [];
  const daemon = createServer(({ method, url }, response) => {
    requests.push(`${method} ${url}`);
    response.setHeader("content-type", "application/json").end("[]");
  }).listen(0, "127.0.0.1");
  await once(daemon, "listening");
  const { port } = daemon.address() as AddressInfo;
  await using fixture = new EngineFixture({
    client: new SandboxClient({ baseUrl: `http://127.0.0.1:${port}` }),
    agents: {
      slow: async (request) => {
        try {
          return await hang(request);
        } catch (error) {
          taken();
          throw error;
        }
      },
    },
  });
  const { database, engine } = fixture;
  const other = new ProcessRegistry(database);
  const taken = (): void => {
    database.prepare("UPDATE workflow_runs SET owner = ?, epoch = epoch + 1").run(other.id);
  };
  const runId = fixture.submit("steps: [{ id: a, agent: slow, task: x }]");
  await expect.poll(() => fixture.started).toEqual(["slow"]);
  requests.length = 0;
  engine.cancel(runId);
  await engine.close();
  expect(requests).toEqual([]);
  expect(engine.store.get(runId)).toMatchObject({ status: "running", owner: other.id });
  daemon.close();
});
