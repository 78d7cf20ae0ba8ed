/** Many concurrent creates: none fails, they take turns, and other requests do not wait for all of them. */
import { availableParallelism } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestDaemon } from "../support/test-daemon.ts";

const BURST = 40;

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start({
    settings: { API_KEYS: "many=key-of-many,one=key-of-one" },
  });
});
afterAll(() => daemon[Symbol.asyncDispose]());

const as = (key: string): { readonly authorization: string } => ({
  authorization: `Bearer ${key}`,
});

async function create(key: string): Promise<string> {
  const { status, body } = await daemon.call("POST", "/v1/sessions", {}, as(key));
  expect([status, body["error_code"]]).toEqual([201, undefined]);
  return String(body["id"]);
}

test("a burst of one owner is created in turns, and another owner's create is next in line", async () => {
  const living = await create("key-of-one");
  const order: string[] = [];
  const burst = Array.from({ length: BURST }, async (_, index) => {
    const id = await create("key-of-many");
    order.push(`many ${index}`);
    const ran = await daemon.call(
      "POST",
      `/v1/sessions/${id}/exec`,
      { cmd: "echo first" },
      as("key-of-many"),
    );
    expect(ran.body).toMatchObject({ stdout: "first\n" });
    return id;
  });
  await Promise.race(burst);
  const other = create("key-of-one").then((id) => {
    order.push("one");
    return id;
  });
  // Commands of existing sessions do not wait in that queue.
  const ran = await daemon.call(
    "POST",
    `/v1/sessions/${living}/exec`,
    { cmd: "echo living" },
    as("key-of-one"),
  );
  expect(ran.body).toMatchObject({ stdout: "living\n" });
  const before = order.length;
  const ids = await Promise.all(burst);
  await other;
  expect(before).toBeLessThan(BURST / 2);
  // The creates in progress when it arrived, and one round of turns.
  expect(order.indexOf("one")).toBeLessThan(before + 3 * availableParallelism() + 2);
  expect(new Set(ids).size).toBe(BURST);
});
