import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../../../testing/http-fixture.ts";

interface Place {
  readonly http: HttpFixture;
  readonly id: string;
}

let usual: Place;
/** Waits long for clients that do not read. */
let patient: Place;
let http: HttpFixture;
let id: string;
beforeAll(async () => {
  usual = await listenIn(await HttpFixture.start({ stallTimeoutMs: 300 }));
  patient = await listenIn(await HttpFixture.start());
  ({ http, id } = usual);
});
afterAll(async () => {
  await http[Symbol.asyncDispose]();
  await patient.http[Symbol.asyncDispose]();
});

async function listenIn(fixture: HttpFixture): Promise<Place> {
  const session = await fixture.createSession();
  await fixture.call(`/v1/sessions/${session}/execs`, { body: { cmd: ["echo-server", "9000"] } });
  const listening = async (): Promise<unknown[]> =>
    (await fixture.call(`/v1/sessions/${session}/ports`)).json.ports;
  while ((await listening()).length === 0) await new Promise(setImmediate);
  return { http: fixture, id: session };
}

/** A client that records everything it receives. */
class Client {
  readonly socket: WebSocket;
  readonly received: { readonly type: string; readonly bytes?: number; readonly error?: object }[] =
    [];
  readonly closed: Promise<readonly [number, string]>;
  receivedBytes = 0;

  constructor(
    path: string,
    key: string | null = ALICES_KEY,
    protocols: string[] = [],
    { port } = http,
  ) {
    const headers = key === null ? {} : { authorization: `Bearer ${key}` };
    this.socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, protocols, { headers });
    this.socket.on("error", () => undefined);
    this.socket.on("message", (data: Buffer, isBinary) => {
      if (isBinary) this.receivedBytes += data.byteLength;
      else this.received.push(JSON.parse(data.toString()) as Client["received"][0]);
    });
    this.closed = new Promise((resolve) =>
      this.socket.once("close", (code, reason) => resolve([code, reason.toString()])),
    );
  }

  async until(done: () => boolean): Promise<void> {
    while (!done()) await once(this.socket, "message");
  }

  static async open(query = "", place = usual): Promise<Client> {
    const path = `/v1/sessions/${place.id}/ports/9000/connect${query}`;
    const client = new Client(path, ALICES_KEY, [], place.http);
    await client.until(() => client.received[0]?.type === "connected");
    return client;
  }

  send(message: object): void {
    this.socket.send(JSON.stringify(message));
  }
}

describe("a connection to a port", () => {
  it("transfers bytes both ways, acknowledges them, and ends when both sides have ended", async () => {
    const client = await Client.open("?window=65536");
    for (let count = 0; count < 100; count += 1) client.socket.send(Buffer.from("x"));
    client.socket.send(Buffer.alloc(0));
    await client.until(() => client.receivedBytes === 100);
    const acknowledged = (): number =>
      client.received.reduce((sum, { bytes = 0 }) => sum + bytes, 0);
    await client.until(() => acknowledged() === 100);
    client.send({ type: "ack", bytes: 100 });
    client.send({ type: "eof" });
    expect(await client.closed).toEqual([1000, "both sides have ended"]);
    expect(client.received.at(-1)).toEqual({ type: "eof" });
  });

  it("sends no more than the window until it is acknowledged", async () => {
    const client = await Client.open("?window=16384");
    client.socket.send(Buffer.alloc(16_384));
    await client.until(() => client.receivedBytes >= 16_384);
    client.socket.send(Buffer.alloc(16_384));
    // The pong arrives after everything that was sent before it.
    client.socket.ping();
    await once(client.socket, "pong");
    expect(client.receivedBytes).toBeLessThanOrEqual(2 * 16_384);
    const before = client.receivedBytes;
    client.send({ type: "ack", bytes: before });
    await client.until(() => client.receivedBytes === 2 * 16_384);
    client.socket.terminate();
  });

  it.each<[string, (client: Client) => Promise<void> | void]>([
    ["more bytes than the window", (client: Client) => client.socket.send(Buffer.alloc(400_000))],
    ["more acknowledged than sent", (client: Client) => client.send({ type: "ack", bytes: 1 })],
    ["nothing acknowledged", (client: Client) => client.send({ type: "ack", bytes: 0 })],
    ["an unknown message", (client: Client) => client.send({ type: "resize" })],
    ["no JSON", (client: Client) => client.socket.send("nonsense")],
    [
      "bytes after the end",
      async (client: Client) => {
        // A full window keeps the other side from ending first.
        client.socket.send(Buffer.alloc(65_536));
        await client.until(() => client.receivedBytes === 65_536);
        client.send({ type: "eof" });
        client.socket.send(Buffer.from("late"));
      },
    ],
  ])("is closed for %s", async (_name, send) => {
    const client = await Client.open("?window=65536");
    await send(client);
    expect(await client.closed).toEqual([4400, "INVALID_REQUEST"]);
    expect(client.received.at(-1)).toMatchObject({ error: { error_code: "INVALID_REQUEST" } });
  });

  it("does not read ahead of a port that accepts nothing", async () => {
    const client = await Client.open("", patient);
    // The echo is not read here, so the port's side fills up.
    client.socket.pause();
    const total = 64 * 2 ** 20;
    const piece = Buffer.alloc(65_536);
    let taken = 0;
    for (let sent = 0; sent < total; sent += piece.byteLength)
      client.socket.send(piece, (error) => {
        if (error === undefined || error === null) taken += piece.byteLength;
      });
    let before = 0;
    for (let quiet = 0; quiet < 4; quiet = taken === before ? quiet + 1 : 0) {
      before = taken;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    // What the kernel and the daemon hold, each once for each direction.
    expect(taken).toBeGreaterThan(0);
    expect(taken).toBeLessThan(total / 2);
    client.socket.terminate();
  });

  it("is refused with the reason", async () => {
    const closed = new Client(`/v1/sessions/${id}/ports/9001/connect`);
    expect(await closed.closed).toEqual([4502, "PORT_REFUSED"]);
    expect(closed.received).toMatchObject([
      { type: "error", error: { error_code: "PORT_REFUSED" } },
    ]);
    const status = async (path: string, key: string | null): Promise<number | undefined> => {
      const { socket } = new Client(path, key);
      const [, response] = (await once(socket, "unexpected-response")) as [
        unknown,
        { statusCode?: number },
      ];
      socket.terminate();
      return response.statusCode;
    };
    const path = `/v1/sessions/${id}/ports/9000/connect`;
    expect(await status(path, null)).toBe(401);
    expect(await status(path, BOBS_KEY)).toBe(404);
    expect(await status(`${path}?window=1`, ALICES_KEY)).toBe(400);
    expect(await status(path.replace("9000", "70000"), ALICES_KEY)).toBe(400);
    expect(await http.call(path)).toMatchObject({ status: 400 });
  });

  it("accepts the key as a subprotocol, and closes when the daemon stops", async () => {
    const key = `sandkasten.bearer.${Buffer.from(ALICES_KEY).toString("base64url")}`;
    const path = `/v1/sessions/${id}/ports/9000/connect`;
    const client = new Client(path, null, ["sandkasten.v1", key]);
    await client.until(() => client.received[0]?.type === "connected");
    expect(client.socket.protocol).toBe("sandkasten.v1");
    http.app.beginShutdown();
    expect(await client.closed).toEqual([1001, "the daemon is stopping"]);
  });
});
