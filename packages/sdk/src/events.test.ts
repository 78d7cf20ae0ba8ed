import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  ALICES_KEY,
  BOBS_KEY,
  HttpFixture,
} from "../../daemon/src/surfaces/testing/http-fixture.ts";
import { SandboxClient } from "./client.ts";
import type { SandboxEvent } from "./events.ts";
import { events, failure, ScriptedServer } from "./testing/scripted-server.ts";
import { clientOf } from "./testing/wire-samples.ts";

/** A proxy between client and daemon that can cut all connections. */
class Cable implements AsyncDisposable {
  readonly #server = createServer((client) => this.#join(client));
  readonly #sockets = new Set<Socket>();
  readonly #port: number;

  private constructor(port: number) {
    this.#port = port;
  }

  static async to(port: number): Promise<Cable> {
    const cable = new Cable(port);
    await new Promise<void>((resolve) => cable.#server.listen(0, "127.0.0.1", resolve));
    return cable;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Returns how many connections it has cut. */
  cut(): number {
    const count = this.#sockets.size / 2;
    for (const socket of this.#sockets) socket.destroy();
    return count;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.cut();
    await closed;
  }

  #join(client: Socket): void {
    const daemon = connect(this.#port, "127.0.0.1");
    for (const [socket, other] of [
      [client, daemon],
      [daemon, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.pipe(other);
      socket.on("error", () => undefined);
      socket.once("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
  }
}

let daemon: HttpFixture;
let client: SandboxClient;
beforeAll(async () => {
  daemon = await HttpFixture.start();
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: ALICES_KEY });
});
afterAll(async () => await daemon[Symbol.asyncDispose]());

/** The next events; the stream stays open. */
async function take(stream: AsyncGenerator<SandboxEvent>, count: number): Promise<SandboxEvent[]> {
  const taken: SandboxEvent[] = [];
  while (taken.length < count) {
    const { value, done } = await stream.next();
    if (done === true) throw new Error(`the stream ended after ${taken.length} events`);
    taken.push(value);
  }
  return taken;
}

const typesOf = (seen: readonly SandboxEvent[]): string[] => seen.map(({ type }) => type);

describe("events()", () => {
  test("returns each event once and in order, even if its connection breaks", async () => {
    await using cable = await Cable.to(daemon.port);
    const far = new SandboxClient({ baseUrl: cable.url, apiKey: ALICES_KEY, retryDelayMs: 1 });
    const session = await client.createSession();
    const stream = (await far.getSession(session.id)).events({ from: "start", types: ["exec"] });
    const ran: string[] = [];
    const seen: SandboxEvent[] = [];
    for (let round = 0; round < 3; round++) {
      // Events from the time without a connection are also delivered.
      for (let count = 0; count < 2; count++) {
        const { execId } = await session.exec("true");
        ran.push(execId, execId);
      }
      seen.push(...(await take(stream, 3)));
      expect(cable.cut()).toBeGreaterThan(0);
      seen.push(...(await take(stream, 1)));
    }
    await stream.return();
    expect(seen.map(({ data }) => data["execId"])).toEqual(ran);
    expect(typesOf(seen)).toEqual(
      ran.map((_, index) => (index % 2 ? "exec.ended" : "exec.started")),
    );
    expect(new Set(seen.map(({ id }) => id)).size).toBe(ran.length);
    expect(seen.at(-1)).toMatchObject({
      sessionId: session.id,
      session_id: session.id,
      owner: "alice",
    });
  });

  test("continues after a cursor, in another process or much later", async () => {
    const session = await client.createSession();
    await session.exec("true");
    const all = await Array.fromAsync(session.events({ follow: false }));
    expect(typesOf(all)).toEqual([
      "session.created",
      "session.running",
      "exec.started",
      "exec.ended",
    ]);
    for (const [index, { id }] of all.entries()) {
      const rest = session.events({ follow: false, cursor: id });
      expect(await Array.fromAsync(rest)).toEqual(all.slice(index + 1));
    }
  });

  test("returns events of all owners to an administrator, and to others only their own", async () => {
    const bob = new SandboxClient({ baseUrl: daemon.url, apiKey: BOBS_KEY });
    const { id } = await bob.createSession();
    await client.createSession();
    const ownersOf = async (asked: AsyncGenerator<SandboxEvent>) =>
      [...new Set((await Array.fromAsync(asked)).map(({ owner }) => owner))].toSorted();
    const types = ["session.created"];
    expect(await ownersOf(client.events({ follow: false, types }))).toEqual(["alice", "bob"]);
    expect(await ownersOf(client.events({ follow: false, types, owner: "bob" }))).toEqual(["bob"]);
    expect(await ownersOf(bob.events({ follow: false, types }))).toEqual(["bob"]);
    const foreign = bob.events({ follow: false, owner: "alice" });
    await expect(foreign.next()).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    expect(await ownersOf(client.events({ follow: false, sessionId: id }))).toEqual(["bob"]);
    const { id: alices } = await client.createSession();
    const other = bob.events({ follow: false, sessionId: alices });
    await expect(other.next()).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
    const seen = await client.listSessions({ owner: "bob" });
    expect(seen.map(({ owner }) => owner)).toEqual(["bob"]);
  });

  test("ends when its signal fires", async () => {
    const stop = new AbortController();
    const next = client.events({ signal: stop.signal }).next();
    stop.abort(new Error("enough"));
    await expect(next).rejects.toThrow("enough");
  });
});

const line = (id: string, type: string, data: unknown): string =>
  `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
const paused = (id: string): string =>
  line(id, "event", {
    id,
    type: "session.paused",
    time: "2026-01-31T12:00:00.000Z",
    owner: "a",
    data: {},
  });

describe("a stream of events that breaks", () => {
  test("requests what follows the last id, even if no event arrived with it", async () => {
    await using server = await ScriptedServer.start(
      events([line("c0", "ready", { cursor: "c0" })], "cut"),
      events([line("c0", "ready", { cursor: "c0" }), paused("c1"), paused("c2")], "cut"),
      events([line("c3", "gap", { reason: "retention" })]),
      events([line("c3", "ready", {}), line("c4", "something new", {}), paused("c5")], "stay"),
    );
    const stream = clientOf(server).events({ types: ["session", "exec.ended"], from: "start" });
    const seen = await take(stream, 4);
    await stream.return();
    expect(seen.map(({ id, type }) => [id, type])).toEqual([
      ["c1", "session.paused"],
      ["c2", "session.paused"],
      ["c3", "gap"],
      ["c5", "session.paused"],
    ]);
    expect(seen[2]?.data).toEqual({ reason: "retention" });
    const types = "types=session%2Cexec.ended";
    expect(server.lines).toEqual([
      `GET /v1/events?from=start&${types}`,
      `GET /v1/events?cursor=c0&${types}`,
      `GET /v1/events?cursor=c2&${types}`,
      `GET /v1/events?cursor=c3&${types}`,
    ]);
  });

  test("throws the daemon's next error, and stops", async () => {
    await using server = await ScriptedServer.start(
      events([paused("c1")], "cut"),
      failure(401, "UNAUTHORIZED"),
    );
    const stream = clientOf(server).events();
    await take(stream, 1);
    await expect(stream.next()).rejects.toMatchObject({ code: "UNAUTHORIZED" });
    expect(server.requests).toHaveLength(2);
  });
});
