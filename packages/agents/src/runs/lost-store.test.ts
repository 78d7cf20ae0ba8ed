/** A database that fails under a run ends the run and not the service. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { AgentFixture, agent } from "../testing/agent-fixture.ts";

test("a run whose events cannot be stored fails, and the service goes on", async () => {
  await using fixture = await AgentFixture.start({ agents: { helper: agent("") } });
  fixture.model.play([{ text: "tick ", endless: true, pieceDelayMs: 10 }]);
  const id = await fixture.client.execute("helper", { task: "x" });
  await fixture.until(id, "text");
  using database = new DatabaseSync(join(fixture.dir, ".sandkasten", "agents.db"));
  database.exec("ALTER TABLE run_events RENAME TO lost");
  for (;;) {
    const run = await fixture.client.run(id);
    if (run.status === "running") continue;
    expect(run).toMatchObject({
      status: "failed",
      error: { code: "INTERNAL_ERROR", message: "The run's events could not be stored." },
    });
    break;
  }
  database.exec("ALTER TABLE lost RENAME TO run_events");
  expect((await fixture.run("helper", [{ text: "Back." }])).text).toBe("Back.");
});
