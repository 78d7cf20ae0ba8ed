import { afterAll, beforeAll, expect, it } from "vitest";
import { TestDaemon } from "../testing/test-daemon.ts";

let daemon: TestDaemon;
let id: string;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  id = await daemon.open();
  await daemon.open();
  await daemon.run(["exec", id, "--", "true"]);
});
afterAll(async () => await daemon[Symbol.asyncDispose]());

interface Line {
  readonly id: string;
  readonly type: string;
  readonly sessionId: string;
}

async function read(...args: readonly string[]): Promise<readonly Line[]> {
  const { code, stdout } = await daemon.run(["events", ...args, "--json"]);
  expect(code).toBe(0);
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
}

it("shows the events of one session, one per line", async () => {
  const { code, stdout } = await daemon.run(["events", id]);
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split("\n");
  expect(lines.map((line) => line.split("  ").slice(1, 4))).toEqual(
    ["session.created", "session.running", "exec.started", "exec.ended"].map((type) => [
      type,
      "alice",
      id,
    ]),
  );
  expect(lines.at(-1)).toContain("  exitCode=0");
});

it("shows those of all sessions, of some types, and after a cursor", async () => {
  const all = await read();
  expect(new Set(all.map(({ sessionId }) => sessionId)).size).toBe(2);
  const some = await read("--types", "session.created,exec");
  expect(some.map(({ type }) => type)).toEqual([
    "session.created",
    "session.created",
    "exec.started",
    "exec.ended",
  ]);
  expect(await read("--cursor", all[2]?.id ?? "")).toEqual(all.slice(3));
});

it("continues as more happens, until it is interrupted", async () => {
  const [last] = (await read(id)).slice(-1);
  const following = daemon.start(["events", id, "--follow", "--cursor", last?.id ?? ""]);
  await daemon.run(["exec", id, "--", "exit 3"]);
  await following.seen(/exec\.ended .*exitCode=3/);
  following.signal("SIGINT");
  const { code, stdout } = await following.done;
  expect(code).toBe(130);
  expect(stdout.match(/exec\.started/g)).toHaveLength(1);
});

it("reports an unknown session or type", async () => {
  expect((await daemon.run(["events", "ses_none"])).code).toBe(1);
  const { code, stderr } = await daemon.run(["events", "--types", "weather"]);
  expect([code, stderr]).toEqual([1, expect.stringContaining("types of events")]);
});
