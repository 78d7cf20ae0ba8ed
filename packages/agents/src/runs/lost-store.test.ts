/**
 * A database that fails during a run, or in which another process took over the run, ends the run
 * and not the service.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { EventLog } from "../store/event-log.ts";
import { RunStore } from "../store/run-store.ts";
import { AgentFixture, agent } from "../testing/agent-fixture.ts";

test("a run whose events cannot be stored fails, and the service continues", async () => {
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

test("a process that another one declared dead reports nothing more about the run", async () => {
  await using fixture = await AgentFixture.start({ agents: { helper: agent("") } });
  fixture.model.play([{ text: "tick ", endless: true, pieceDelayMs: 10 }]);
  const id = await fixture.client.execute("helper", { task: "x" });
  await fixture.until(id, "text");
  using database = new DatabaseSync(join(fixture.dir, ".sandkasten", "agents.db"));
  // What another process does when it finds no heartbeat of this one.
  const error = { code: "PROCESS_ENDED", message: "The process that ran it ended." };
  expect(new RunStore(database).failAbandoned(() => [], error)).toEqual([id]);
  const events = new EventLog(database);
  const { seq } = events.append(id, "run_ended", { status: "failed", error });

  // The model keeps sending.
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(events.read(id, seq, 100)).toEqual([]);
  expect(await fixture.client.run(id)).toMatchObject({ status: "failed", error });
  await fixture.service.close();
  expect(events.read(id, seq, 100)).toEqual([]);
});
