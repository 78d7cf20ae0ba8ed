import { connect } from "node:net";
import { eventSchema } from "@sandkasten/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BOB } from "../../../sessions/testing/core-fixture.ts";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../../testing/http-fixture.ts";
import { parseEvents, readEvents } from "../../testing/read-events.ts";
import type { ServerEvent } from "../../testing/read-events.ts";

const CAROLS_KEY = "carols-key-0123456789";

let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start({
    callers: [
      { key: ALICES_KEY, caller: { ...BOB, owner: "alice", isAdmin: true } },
      { key: BOBS_KEY, caller: BOB },
      { key: CAROLS_KEY, caller: { ...BOB, owner: "carol" } },
    ],
  });
});
afterAll(async () => await http[Symbol.asyncDispose]());

const bob = { key: BOBS_KEY };
const carol = { key: CAROLS_KEY };

async function createSession(key: string): Promise<string> {
  const { json } = await http.call("/v1/sessions", { key, body: {} });
  return json.id as string;
}

/** The current content of the feed, without `ready` and `done`. */
async function read(
  path: string,
  call: Parameters<HttpFixture["call"]>[1],
): Promise<ServerEvent[]> {
  const joint = path.includes("?") ? "&" : "?";
  const answer = await http.call(`${path}${joint}follow=false`, call);
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const events = parseEvents(answer.text);
  expect(events[events[0]?.event === "gap" ? 1 : 0]?.event).toBe("ready");
  expect(events.at(-1)?.event).toBe("done");
  return events.filter(({ event }) => event !== "ready" && event !== "done");
}

const typesOf = (events: readonly ServerEvent[]): unknown[] => events.map(({ data }) => data.type);

describe("GET /v1/sessions/{id}/events", () => {
  it("returns the events of a session in order, each in the documented form", async () => {
    const id = await createSession(BOBS_KEY);
    await http.call(`/v1/sessions/${id}/exec`, { ...bob, body: { cmd: "echo hello" } });
    await http.call(`/v1/sessions/${id}/pause`, { ...bob, body: {} });
    await http.call(`/v1/sessions/${id}/resume`, { ...bob, body: {} });
    await http.call(`/v1/sessions/${id}`, { ...bob, method: "DELETE" });
    const events = await read(`/v1/sessions/${id}/events`, bob);
    expect(typesOf(events)).toEqual([
      "session.created",
      "session.running",
      "exec.started",
      "exec.ended",
      "session.paused",
      "session.resumed",
      "session.ended",
    ]);
    for (const { event, id: cursor, data } of events) {
      expect(event).toBe("event");
      expect(data.id).toBe(cursor);
      expect(eventSchema.parse(data)).toEqual(data);
      expect(data).toMatchObject({ owner: "bob", session_id: id });
    }
    expect(events[3]?.data.data).toMatchObject({ end_reason: "exited", exit_code: 0 });
    expect(events[6]?.data.data).toEqual({ status: "destroyed", lifetime_ms: 0 });
    expect(JSON.stringify(events)).not.toContain("echo");
  });

  it("can be followed live, and continued with a cursor or Last-Event-ID", async () => {
    const id = await createSession(BOBS_KEY);
    const gone = new AbortController();
    const path = `/v1/sessions/${id}/events`;
    const stream = readEvents(await http.fetch(path, { ...bob, signal: gone.signal }));
    const { value: ready } = await stream.next();
    expect(ready).toMatchObject({ event: "ready", data: { cursor: ready?.id } });
    await http.call(`/v1/sessions/${id}/exec`, { ...bob, body: { cmd: "true" } });
    const { value: first } = await stream.next();
    const { value: second } = await stream.next();
    expect([first?.data.type, second?.data.type]).toEqual(["exec.started", "exec.ended"]);
    gone.abort();
    expect(typesOf(await read(`${path}?cursor=${ready?.id}`, bob))).toEqual([
      "exec.started",
      "exec.ended",
    ]);
    const headers = { "last-event-id": first?.id ?? "" };
    // A browser repeats the original address, so the header takes precedence.
    const again = await read(`${path}?cursor=${ready?.id}`, { ...bob, headers });
    expect(typesOf(again)).toEqual(["exec.ended"]);
  });

  it("returns the same for another owner's session as for an unknown one", async () => {
    const id = await createSession(BOBS_KEY);
    for (const path of [`/v1/sessions/${id}/events`, `/v1/events?session_id=${id}`]) {
      const answer = await http.call(path, carol);
      expect([path, answer.status, answer.json.error_code]).toEqual([
        path,
        404,
        "SESSION_NOT_FOUND",
      ]);
    }
  });
});

describe("GET /v1/events", () => {
  it("returns only a tenant's own events, and all events to an administrator", async () => {
    const [bobs, carols] = [await createSession(BOBS_KEY), await createSession(CAROLS_KEY)];
    const ownersOf = async (path: string, call: typeof bob) =>
      new Set((await read(path, call)).map(({ data }) => data.owner as string));
    expect(await ownersOf("/v1/events", bob)).toEqual(new Set(["bob"]));
    expect(await ownersOf("/v1/events", carol)).toEqual(new Set(["carol"]));
    expect(await ownersOf("/v1/events?owner=carol", { key: ALICES_KEY })).toEqual(
      new Set(["carol"]),
    );
    const all = await ownersOf("/v1/events", { key: ALICES_KEY });
    expect(all.isSupersetOf(new Set(["bob", "carol"]))).toBe(true);
    const foreign = await http.call("/v1/events?owner=bob", carol);
    expect([foreign.status, foreign.json.error_code]).toEqual([403, "PERMISSION_DENIED"]);
    const own = await read(`/v1/events?session_id=${carols}`, carol);
    expect(new Set(own.map(({ data }) => data.session_id as string))).toEqual(new Set([carols]));
    expect(bobs).not.toBe(carols);
  });

  it("returns only events of the requested types, by name or by prefix", async () => {
    const id = await createSession(BOBS_KEY);
    await http.call(`/v1/sessions/${id}/exec`, { ...bob, body: { cmd: "true" } });
    const path = `/v1/events?session_id=${id}`;
    expect(typesOf(await read(`${path}&types=exec`, bob))).toEqual(["exec.started", "exec.ended"]);
    expect(typesOf(await read(`${path}&types=session.created,exec.ended`, bob))).toEqual([
      "session.created",
      "exec.ended",
    ]);
  });

  it("refuses filters that are huge or meaningless, and invalid cursors", async () => {
    for (const query of [
      "types=nothing",
      "types=__proto__",
      `types=${"session,".repeat(200)}session`,
      `types=${Array.from({ length: 40 }, () => "exec").join(",")}`,
      `session_id=${"x".repeat(200)}`,
      `owner=${"x".repeat(300)}`,
      "cursor=1",
      `cursor=${"A".repeat(1000)}`,
      "from=yesterday",
      "follow=perhaps",
    ]) {
      const answer = await http.call(`/v1/events?${query}`, bob);
      expect([query.slice(0, 40), answer.status]).toEqual([query.slice(0, 40), 400]);
    }
  });

  it("answers a forged cursor with a gap, and returns only what `start` would", async () => {
    await createSession(CAROLS_KEY);
    const forged = await read("/v1/events?cursor=AAAAAAAAAAAAAAAAAAAAAA", bob);
    expect(forged[0]).toMatchObject({ event: "gap", data: { reason: "unknown_cursor" } });
    expect(new Set(forged.slice(1).map(({ data }) => data.owner as string))).toEqual(
      new Set(["bob"]),
    );
    const theirs = (await read("/v1/events", carol)).at(0)?.id ?? "";
    const behind = await read(`/v1/events?cursor=${theirs}`, bob);
    expect(behind.every(({ data }) => data.owner === "bob")).toBe(true);
  });

  it("limits the number of followers, reports the limit, and accepts new ones when others have left", async () => {
    const gone = new AbortController();
    const open = async () => await http.fetch("/v1/events", { ...carol, signal: gone.signal });
    const streams = await Promise.all(Array.from({ length: 20 }, open));
    const statuses = streams.map(({ status }) => status).toSorted((one, other) => one - other);
    expect(statuses).toEqual([...Array(16).fill(200), ...Array(4).fill(429)]);
    const refused = streams.find(({ status }) => status === 429);
    expect(await refused?.json()).toMatchObject({ error_code: "QUOTA_EXCEEDED" });
    // Other owners have their own places.
    expect((await read("/v1/events", bob)).length).toBeGreaterThan(0);
    gone.abort();
    await expect.poll(() => http.core.events.followers).toBe(0);
  });

  it("keeps no event in memory for a client that does not read", async () => {
    const id = await createSession(BOBS_KEY);
    const socket = connect(http.port, "127.0.0.1");
    socket.write(
      `GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${BOBS_KEY}\r\n\r\n`,
    );
    socket.pause();
    await expect.poll(() => http.core.events.followers).toBe(1);
    const paths = Array.from({ length: 8 }, () => "x".repeat(500));
    for (let count = 0; count < 3000; count += 1)
      http.core.events.record({
        type: "file.changed",
        owner: "bob",
        sessionId: id,
        data: { changes: count, paths, more: false },
      });
    // All other clients continue.
    const seen = await read(`/v1/events?session_id=${id}&types=file`, bob);
    expect(seen.map(({ data }) => data.data.changes as number)).toEqual(
      Array.from({ length: 3000 }, (_, at) => at),
    );
    socket.destroy();
    await expect.poll(() => http.core.events.followers).toBe(0);
  });
});
