import { appendFile, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { NewEgressRecord } from "../ports/egress-log.ts";
import { FileEgressLog } from "./file-egress-log.ts";
import { EgressRecorder, EgressTotals } from "./egress-recorder.ts";

const directories: string[] = [];

afterEach(async () => {
  for (const directory of directories.splice(0)) await rm(directory, { recursive: true });
});

async function place(): Promise<{
  readonly directory: string;
  readonly open: () => FileEgressLog;
}> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-egress-log-"));
  directories.push(directory);
  const log = { info: fail, warn: fail, error: fail };
  return { directory, open: () => new FileEgressLog({ directory, log }) };
}

function fail(details: object): void {
  throw new Error(JSON.stringify(details));
}

const record = (port: number, rest: Partial<NewEgressRecord> = {}): NewEgressRecord => ({
  startedAtMs: 1,
  endedAtMs: 2,
  via: "transparent",
  name: "a.example",
  address: "93.184.216.34",
  port,
  verdict: "allowed",
  sentBytes: 3,
  receivedBytes: 4,
  ...rest,
});

describe("FileEgressLog", () => {
  it("returns records in order, page by page", async () => {
    const log = (await place()).open();
    for (let port = 1; port <= 5; port += 1) log.add("s1", record(port));
    const first = await log.read("s1", 0, 3);
    expect(first).toMatchObject({ cursor: 3, missing: 0 });
    expect(first.records.map(({ port }) => port)).toEqual([1, 2, 3]);
    const second = await log.read("s1", first.cursor, 3);
    expect(second.records).toEqual([
      { sequence: 4, count: 1, ...record(4) },
      { sequence: 5, count: 1, ...record(5) },
    ]);
    expect(await log.read("s1", second.cursor, 3)).toEqual({ records: [], cursor: 5, missing: 0 });
  });

  it("knows the bytes of a session after a restart, even of dropped records", async () => {
    const { open } = await place();
    const log = open();
    expect(await log.usedBytes("s1")).toBe(0);
    // More than are kept at once, and more than wait to be written.
    for (let round = 0; round < 20; round += 1) {
      for (let port = 1; port <= 600; port += 1) log.add("s1", record(port));
      await log.flush();
    }
    const { missing } = await log.read("s1", 0, 1);
    expect(missing).toBeGreaterThan(0);
    expect(await open().usedBytes("s1")).toBe(20 * 600 * 7);
    const again = open();
    again.add("s1", record(1));
    expect(await again.usedBytes("s1")).toBe(20 * 600 * 7 + 7);
    expect((await again.read("s1", 0, 1000)).records.at(-1)).not.toHaveProperty("usedBytes");
  });

  it("counts identical refusals together, but not connections that transferred bytes", async () => {
    const log = (await place()).open();
    const cut = { verdict: "refused", reason: "the policy changed" } as const;
    const nothing = { ...cut, sentBytes: 0, receivedBytes: 0 };
    for (const rest of [cut, cut, nothing, nothing]) log.add("s1", record(1, rest));
    const { records } = await log.read("s1", 0, 10);
    expect(records.reduce((sum, { count }) => sum + count, 0)).toBe(4);
    expect(records.reduce((sum, { sentBytes }) => sum + sentBytes, 0)).toBe(6);
    expect(await log.usedBytes("s1")).toBe(14);
  });

  it("keeps the records of sessions apart", async () => {
    const log = (await place()).open();
    log.add("s1", record(1));
    expect((await log.read("s2", 0, 10)).records).toEqual([]);
  });

  it("continues after an earlier daemon was killed, even in the middle of a line", async () => {
    const { directory, open } = await place();
    const earlier = open();
    earlier.add("s1", record(1));
    await earlier.flush();
    await appendFile(join(directory, "s1.jsonl"), '{"sequence":2,"por');
    const log = open();
    log.add("s1", record(2));
    log.add("s1", record(3));
    const { records } = await log.read("s1", 0, 10);
    expect(records.map(({ port }) => port)).toEqual([1, 2, 3]);
  });

  it("counts repeated refused attempts instead of repeating them", async () => {
    const log = (await place()).open();
    const refused = record(22, {
      verdict: "refused",
      reason: "no",
      sentBytes: 0,
      receivedBytes: 0,
    });
    for (let at = 0; at < 1000; at += 1) log.add("s1", refused);
    log.add("s1", record(443));
    log.add("s1", record(443));
    const { records } = await log.read("s1", 0, 10);
    expect(records.map(({ count }) => count)).toEqual([1000, 1, 1]);
  });

  it("reports how many arrived too quickly to be written", async () => {
    const log = (await place()).open();
    for (let port = 1; port <= 600; port += 1) log.add("s1", record(port));
    const { records } = await log.read("s1", 0, 1000);
    expect(records).toHaveLength(513);
    expect(records.at(-1)).toMatchObject({ count: 88, reason: expect.stringContaining("88 more") });
  });

  it("uses a limited amount of disk space, and reports what is missing", async () => {
    const { directory, open } = await place();
    const log = open();
    const reason = "x".repeat(1000);
    for (let round = 0; round < 12; round += 1) {
      for (let port = 1; port <= 500; port += 1) log.add("s1", record(port, { reason }));
      await log.flush();
    }
    const sizes = await Promise.all(
      (await readdir(directory)).map(async (name) => (await stat(join(directory, name))).size),
    );
    expect(sizes).toHaveLength(2);
    // A file can exceed its size by one write.
    for (const size of sizes) expect(size).toBeLessThan(1024 * 1024);
    const page = await log.read("s1", 0, 10_000);
    expect(page.missing).toBeGreaterThan(0);
    expect(page.missing + page.records.length).toBe(6000);
    expect(page.cursor).toBe(6000);
  });

  it("follows new entries until the reader leaves", async () => {
    const log = (await place()).open();
    log.add("s1", record(1));
    const stop = new AbortController();
    const ports: (number | undefined)[] = [];
    for await (const { records } of log.follow("s1", 0, 10, stop.signal)) {
      ports.push(...records.map(({ port }) => port));
      if (ports.length === 1) setTimeout(() => log.add("s1", record(2)), 0);
      else stop.abort();
    }
    expect(ports).toEqual([1, 2]);
  });

  it("hands followers new records without reading the old ones again", async () => {
    const { directory, open } = await place();
    const log = open();
    log.add("s1", record(1));
    const stop = new AbortController();
    const ports: (number | undefined)[] = [];
    for await (const { records } of log.follow("s1", 0, 1_000, stop.signal)) {
      ports.push(...records.map(({ port }) => port));
      if (ports.length > 2) stop.abort();
      else {
        // A read of the files finds this one.
        const other = JSON.stringify({ ...record(99), sequence: ports.length + 1 });
        await writeFile(join(directory, "s1.older.jsonl"), `${other}\n`);
        log.add("s1", record(ports.length + 1));
      }
    }
    expect(ports).toEqual([1, 2, 3]);
    const [first] = (await log.read("s1", 2, 1)).records;
    expect(first?.port).toBe(99);
  });

  it("parses the records once for readers at the same time, and again for later ones", async () => {
    const log = (await place()).open();
    log.add("s1", record(1));
    const [one, other] = await Promise.all([log.read("s1", 0, 10), log.read("s1", 0, 10)]);
    expect(one.records).toHaveLength(1);
    expect(one.records[0]).toBe(other.records[0]);
    const later = await log.read("s1", 0, 10);
    expect(later).toEqual(one);
    expect(later.records[0]).not.toBe(one.records[0]);
    const before = log.read("s1", 0, 10);
    log.add("s1", record(2));
    expect((await log.read("s1", 0, 10)).records).toHaveLength(2);
    await before;
  });

  it("forgets a session, and removes unknown ones", async () => {
    const { directory, open } = await place();
    const log = open();
    for (const id of ["s1", "s2", "s3"]) log.add(id, record(1));
    await log.flush();
    await log.forget("s1");
    await open().sweep((id) => Promise.resolve(id === "s3"));
    expect(await readdir(directory)).toEqual(["s3.jsonl"]);
  });
});

describe("EgressRecorder", () => {
  it("records a connection with its name, address, bytes and times when it ends", () => {
    const records: NewEgressRecord[] = [];
    const totals = new EgressTotals();
    let now = 100;
    const recorder = new EgressRecorder(
      (one) => records.push(one),
      totals,
      () => now,
    );
    const connection = {
      target: { name: "a.example", port: 443 },
      via: "connect" as const,
      address: "93.184.216.34",
    };
    recorder.opened(connection);
    recorder.moved(connection, 10, 20);
    recorder.moved(connection, 1, 2);
    expect(recorder.openConnections()).toMatchObject([{ sentBytes: 11, receivedBytes: 22 }]);
    expect(totals.counts()).toMatchObject({ open: 1, sentBytes: 11, receivedBytes: 22 });
    now = 150;
    recorder.closed(connection, { kind: "closed" });
    expect(records).toEqual([
      {
        startedAtMs: 100,
        endedAtMs: 150,
        via: "connect",
        name: "a.example",
        address: "93.184.216.34",
        port: 443,
        verdict: "allowed",
        sentBytes: 11,
        receivedBytes: 22,
      },
    ]);
    expect(recorder.openConnections()).toEqual([]);
    expect(totals.counts()).toMatchObject({ open: 0, connections: { allowed: 1 } });
  });

  it("records refused and failed connections with the reason", () => {
    const records: NewEgressRecord[] = [];
    const totals = new EgressTotals();
    const recorder = new EgressRecorder(
      (one) => records.push(one),
      totals,
      () => 1,
    );
    const connection = { target: { address: "10.0.0.1", port: 22 }, via: "socks5" as const };
    recorder.closed(connection, { kind: "refused", reason: "not allowed" });
    recorder.closed(connection, { kind: "failed", reason: "timed out" });
    recorder.nameRefused("b.example");
    expect(records).toMatchObject([
      { address: "10.0.0.1", port: 22, verdict: "refused", reason: "not allowed" },
      { verdict: "failed", reason: "timed out" },
      { via: "dns", name: "b.example", verdict: "refused" },
    ]);
    expect(totals.counts().connections).toEqual({ allowed: 0, refused: 2, failed: 1 });
  });
});
