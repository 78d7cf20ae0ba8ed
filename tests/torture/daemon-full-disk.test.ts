/** Threat: a full data disk. A disk that is full for a while loses no output, or reports how much. */
import { setTimeout as sleep } from "node:timers/promises";
import { composeEmbedded } from "@sandkasten/daemon";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readEvents } from "../../packages/daemon/src/surfaces/testing/read-events.ts";
import { SmallDisk } from "../support/small-disk.ts";
import { TestDaemon } from "../support/test-daemon.ts";

/** Quickly fills the journal's last block, so a full disk is noticed at once. */
const LINE = "x".repeat(500);
const LINES = 1000;

let stack: AsyncDisposableStack;
let disk: SmallDisk;
let daemon: TestDaemon;
beforeEach(async () => {
  stack = new AsyncDisposableStack();
  disk = stack.use(await SmallDisk.mount(64));
  daemon = await TestDaemon.start({ dataDir: disk.path });
  stack.defer(async () => {
    await daemon.kill();
    const { backend } = await composeEmbedded({ dataDir: disk.path });
    for (const { id } of await backend.list()) await backend.destroy(id);
  });
});
afterEach(async () => {
  await stack.disposeAsync();
});

interface Followed {
  readonly lines: readonly string[];
  readonly skippedBytes: number;
  readonly done: { readonly dropped_bytes: number; readonly output_bytes: number };
}

/** Prints numbered lines until a file tells it to stop; follows them, and all reported gaps. */
async function startPrinting(): Promise<{ path: string; followed: Promise<Followed> }> {
  const id = await daemon.open();
  const { body } = await daemon.call("POST", `/v1/sessions/${id}/execs`, {
    cmd: `i=0; until [ $i = ${LINES} ] || [ -e /tmp/enough ]; do echo $i ${LINE}; i=$((i+1)); sleep 0.02; done; echo end`,
  });
  const path = `/v1/sessions/${id}/execs/${String(body["exec_id"])}`;
  const followed = (async (): Promise<Followed> => {
    let text = "";
    let skippedBytes = 0;
    for await (const { event, data } of readEvents(await daemon.fetch(`${path}/stream`))) {
      if (event === "chunk") text += String(data.chunk);
      if (event === "skipped") skippedBytes += Number(data.skipped_bytes);
      if (event === "done") return { lines: text.split("\n"), skippedBytes, done: data };
    }
    throw new Error("the stream ended without a last event");
  })();
  followed.catch(() => undefined);
  return { path, followed };
}

async function enough(path: string): Promise<void> {
  const session = path.slice(0, path.indexOf("/execs"));
  await daemon.call("POST", `${session}/fs/write`, { path: "/tmp/enough", text: "" });
}

async function printed(path: string): Promise<number> {
  return Number((await daemon.call("GET", path)).body["output_bytes"]);
}

/** Resolves when the journal accepts nothing more, which proves that the disk is full. */
async function untilNothingIsKept(path: string): Promise<void> {
  let before = -1;
  for (let now = await printed(path); now !== before; now = await printed(path)) {
    before = now;
    await sleep(500);
  }
}

it("for a short time loses nothing: the output waits in the sandbox", async () => {
  const { path, followed } = await startPrinting();
  await sleep(500);
  await disk.fill();
  await untilNothingIsKept(path);
  await sleep(1_000);
  await disk.makeRoom();
  await sleep(500);
  await enough(path);
  const { lines, skippedBytes, done } = await followed;
  expect(lines.slice(0, -2)).toEqual(lines.slice(0, -2).map((_, i) => `${i} ${LINE}`));
  expect(lines.slice(-2)).toEqual(["end", ""]);
  expect({ skippedBytes, dropped: done.dropped_bytes }).toEqual({ skippedBytes: 0, dropped: 0 });
});

it("for a long time is a gap that every reader learns of, and later output is kept", async () => {
  const { path, followed } = await startPrinting();
  await sleep(500);
  await disk.fill();
  await untilNothingIsKept(path);
  // Longer than the command is paused.
  await sleep(12_000);
  await disk.makeRoom();
  await sleep(2_000);
  await enough(path);
  const { lines, skippedBytes, done } = await followed;
  expect(lines.slice(-2)).toEqual(["end", ""]);
  expect(skippedBytes).toBeGreaterThan(0);
  expect(done.dropped_bytes).toBe(skippedBytes);
  const { body } = await daemon.call<{ skipped_bytes: number; next_cursor: number }>(
    "GET",
    `${path}/output?cursor=0&max_bytes=8000000`,
  );
  const rest = await daemon.call<{ skipped_bytes: number; next_cursor: number; done: boolean }>(
    "GET",
    `${path}/output?cursor=${body.next_cursor}&max_bytes=8000000`,
  );
  expect(body.skipped_bytes + rest.body.skipped_bytes).toBe(skippedBytes);
  expect(rest.body).toMatchObject({ next_cursor: done.output_bytes, done: true });
});

it("until the end is a gap at the end", async () => {
  const { path, followed } = await startPrinting();
  await sleep(500);
  await disk.fill();
  await untilNothingIsKept(path);
  await sleep(11_000);
  await enough(path);
  const { skippedBytes, done } = await followed;
  expect(skippedBytes).toBeGreaterThan(0);
  expect(done.dropped_bytes).toBe(skippedBytes);
  await disk.makeRoom();
  // Possibly before the end is stored: then the next daemon learns it from the sandbox again.
  await daemon.kill();
  await daemon.run();
  expect((await daemon.call("POST", `${path}/wait`, {})).body).toMatchObject({
    exit_code: 0,
    dropped_bytes: skippedBytes,
  });
  const { body } = await daemon.call<{ next_cursor: number }>("GET", `${path}/output?cursor=0`);
  const rest = await daemon.call("GET", `${path}/output?cursor=${body.next_cursor}`);
  expect(rest.body).toMatchObject({ skipped_bytes: skippedBytes, done: true });
});

it("a daemon that is killed during that time starts again, and its sessions can be ended", async () => {
  const id = await daemon.open();
  await disk.fill();
  expect((await daemon.call("POST", "/v1/sessions", {})).status).toBe(507);
  await daemon.kill();
  await daemon.run();
  expect((await daemon.call("GET", `/v1/sessions/${id}`)).body["status"]).toBe("running");
  expect((await daemon.call("DELETE", `/v1/sessions/${id}`)).status).toBe(200);
  await disk.makeRoom();
  expect(await daemon.open()).toMatch(/^ses_/);
});
