/** A process that runs a single command does not take the runs of others. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { EngineFixture } from "../testing/engine-fixture.ts";
import { RunConflict } from "./run-store.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-own-runs-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

const SOURCE = `
steps:
  - { id: ask, type: approval }
  - { id: say, agent: echo, task: hello }
`;

it("takes only its own runs and those that it resumes", async () => {
  const path = join(directory, "runs.db");
  let runId: string;
  {
    await using left = new EngineFixture({ path });
    runId = left.submit(SOURCE);
    await left.until(runId, ({ status }) => status === "waiting_approval");
  }
  await using transient = new EngineFixture({
    path,
    onlyOwnRuns: true,
    agents: { echo: () => "done" },
  });
  const { engine } = transient;
  engine.decide(runId, "ask", { approved: true });
  // Its own run takes many polls for work; the other one does not change.
  const own = await transient.run("steps: [{ id: wait, type: timer, seconds: 0.2 }]");
  expect(own.status).toBe("succeeded");
  expect(engine.store.get(runId)).toMatchObject({ status: "waiting_approval", owner: undefined });
  expect(transient.started).toEqual([]);

  expect(() => engine.resume(runId)).toThrow(RunConflict);
  expect((await transient.until(runId)).status).toBe("succeeded");
  expect(transient.started).toEqual(["echo"]);
});
