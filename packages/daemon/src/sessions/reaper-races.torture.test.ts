/** Threat: expiry during use. A command and the end of its session's lease coincide. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { rounds, runRandom } from "../../../../tests/support/rounds.ts";
import type { Backend } from "../ports/backend.ts";
import { ALICE, CoreFixture, overriding } from "./testing/core-fixture.ts";

const TTL_MS = 60_000;
const MAX_TURNS = 12;

let fixture: CoreFixture;
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

it("a command completes or its session expires, never half of each", async () => {
  const random = runRandom("reaper races");
  /** Lets other work go first, a number of times that the seed decides. */
  const wait = async (): Promise<void> => {
    for (let turns = Math.floor(random() * MAX_TURNS); turns > 0; turns--) await nextTurn();
  };
  const slowly = (backend: Backend): Backend =>
    overriding(backend, {
      open: async (...args) => (await wait(), await backend.open(...args)),
      destroy: async (...args) => (await wait(), await backend.destroy(...args)),
    });
  fixture = await CoreFixture.start({ wrap: slowly });
  const { core, clock, machine } = fixture;
  const outcomes = new Map<string, number>();
  for (let trial = 0; trial < rounds({ slice: 100, torture: 500 }); trial++) {
    const { id } = (await core.sessions.create(ALICE, { ttlMs: TTL_MS })).session;
    clock.pass(TTL_MS - 1);
    const endsAgain = random() < 0.5;
    const [ran] = await Promise.allSettled([
      wait().then(() => fixture.run(id, "echo begun && echo whole")),
      wait().then(() => core.reaper.tick()),
      wait().then(() => clock.pass(2)),
      // In half of the trials, the lease that the command renewed also ends while it may still run.
      wait().then(() => clock.pass(endsAgain ? TTL_MS : 0)),
      wait()
        .then(wait)
        .then(() => core.reaper.tick()),
    ]);
    // Whoever wins, the session is settled after one more round.
    await core.reaper.tick();
    const { status } = await core.sessions.get(ALICE, id);
    const isThere = machine.sandboxes.size === 1;
    if (ran.status === "fulfilled")
      expect(ran.value).toMatchObject({ exitCode: 0, output: "begun\nwhole\n" });
    else expect(ran.reason).toMatchObject({ code: "SESSION_EXPIRED" });
    const outcome = `${ran.status === "fulfilled" ? "ran" : "refused"}, ${status}, ${isThere ? "there" : "gone"}`;
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    await core.sessions.destroy(ALICE, id);
    expect(machine.sandboxes.size).toBe(0);
  }
  // Each side won often. A session can also expire after its command has ended.
  for (const outcome of ["ran, running, there", "refused, expired, gone"])
    expect([outcome, (outcomes.get(outcome) ?? 0) > 5]).toEqual([outcome, true]);
  outcomes.delete("ran, running, there");
  outcomes.delete("refused, expired, gone");
  outcomes.delete("ran, expired, gone");
  expect(outcomes).toEqual(new Map());
});
