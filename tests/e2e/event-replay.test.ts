/** Event streams that are resumed after the daemon was restarted or killed. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { FollowedEvents } from "../support/followed-events.ts";
import { PostgresCluster } from "../support/postgres-cluster.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const COMMANDS = 5;
const commands = Array.from({ length: COMMANDS }, () => ["exec.started", "exec.ended"]).flat();

let cluster: PostgresCluster;
beforeAll(async () => {
  cluster = await PostgresCluster.start();
});
afterAll(async () => await cluster[Symbol.asyncDispose]());

test.each([
  ["SIGTERM", "SQLite"],
  ["SIGKILL", "SQLite"],
  ["SIGTERM", "Postgres"],
  ["SIGKILL", "Postgres"],
] as const)(
  "after %s on %s, followers miss nothing and get nothing twice, in the order of the whole feed",
  async (signal, database) => {
    const url = database === "Postgres" ? await cluster.createDatabase() : undefined;
    await using daemon = await TestDaemon.start({ settings: { DATABASE_URL: url } });
    const ids = [await daemon.open(), await daemon.open()] as const;
    const all = new FollowedEvents("/v1/events");
    const ofOne = new FollowedEvents(`/v1/sessions/${ids[0]}/events`);
    const followers = [all, ofOne];
    const run = async (): Promise<void> => {
      for (const id of ids) {
        for (let n = 0; n < COMMANDS; n++) await daemon.exec(id, "true");
        // Its event waits for further changes of the session's files.
        await daemon.call("PUT", `/v1/sessions/${id}/fs/file?path=a`, "content");
      }
    };
    for (const follower of followers) await follower.follow(daemon);
    await run();
    // Followers are in the middle, and the last events are not written yet.
    await daemon.kill(signal);
    for (const follower of followers) await follower.stop();
    await daemon.run();
    for (const follower of followers) await follower.follow(daemon);
    // On Postgres, sessions belong to the other daemon until that one counts as dead.
    for (const id of ids)
      await vi.waitUntil(
        async () => (await daemon.call("GET", `/v1/sessions/${id}/fs`)).status === 200,
        { timeout: 60_000, interval: 100 },
      );
    await run();
    for (const id of ids) await daemon.call("DELETE", `/v1/sessions/${id}`);
    const isAll = (): boolean => all.typesOf(ids[1]).includes("session.ended");
    const isOne = (): boolean => ofOne.typesOf(ids[0]).includes("session.ended");
    await vi.waitUntil(() => isAll() && isOne(), { timeout: 60_000 });
    for (const follower of followers) await follower.stop();

    const whole = new FollowedEvents("/v1/events");
    await whole.follow(daemon);
    await vi.waitUntil(() => whole.events.length >= all.events.length, { timeout: 60_000 });
    await whole.stop();
    expect(all.events).toEqual(whole.events.slice(0, all.events.length));
    expect(new Set(all.events.map(({ id }) => id)).size).toBe(all.events.length);
    const inWhole = whole.events.filter(({ session_id }) => session_id === ids[0]);
    expect(ofOne.events).toEqual(inWhole.slice(0, ofOne.events.length));
    for (const id of ids) {
      const types = all.typesOf(id);
      expect(types.at(-1)).toBe("session.ended");
      const expected = ["session.created", "session.running", ...commands, ...commands];
      const told = types.filter((type) => type !== "file.changed");
      expect(told).toEqual([...expected, "session.ended"]);
      // A killed daemon cannot report pending events, and only it knows about file changes.
      if (signal === "SIGTERM") expect(types).toHaveLength(told.length + 2);
      const ofCommands = Map.groupBy(
        all.events.filter(
          ({ session_id, data }) => session_id === id && data.exec_id !== undefined,
        ),
        ({ data }) => data.exec_id,
      );
      expect(ofCommands.size).toBe(2 * COMMANDS);
      for (const events of ofCommands.values())
        expect(events.map(({ type }) => type)).toEqual(["exec.started", "exec.ended"]);
    }
    expect(followers.flatMap(({ others }) => others)).not.toContain("gap");
  },
);
