import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { StartExecOptions } from "../../../../sessions/services/exec-service.ts";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../../../testing/http-fixture.ts";

let http: HttpFixture;
let id: string;
const started: StartExecOptions[] = [];
beforeAll(async () => {
  http = await HttpFixture.start({
    stallTimeoutMs: 300,
    replace: {
      execs: {
        /** In-memory sandboxes have no shell; `cat` also reads input. */
        async start(caller, sessionId, options) {
          started.push(options);
          const isTerminal =
            options.command.kind === "process" && options.command.pty !== undefined;
          const command = isTerminal ? { ...options.command, argv: ["cat"] } : options.command;
          return await this.start!(caller, sessionId, { ...options, command });
        },
      },
    },
  });
  id = await http.createSession();
});
afterAll(async () => await http[Symbol.asyncDispose]());

interface Open {
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly protocols?: readonly string[];
}

/** A client that records everything it receives. */
class Terminal {
  readonly socket: WebSocket;
  readonly received: { readonly type: string; readonly [name: string]: unknown }[] = [];
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  text = "";

  constructor({ path = `/v1/sessions/${id}/pty`, protocols = [], headers }: Open = {}) {
    const own = headers ?? { authorization: `Bearer ${ALICES_KEY}` };
    this.socket = new WebSocket(`ws://127.0.0.1:${http.port}${path}`, [...protocols], {
      headers: own,
    });
    this.socket.on("message", (data: Buffer, isBinary) => {
      if (isBinary) this.text += data.toString();
      else this.received.push(JSON.parse(data.toString()) as Terminal["received"][0]);
    });
    this.closed = new Promise((resolve) =>
      this.socket.once("close", (code, reason) => resolve({ code, reason: reason.toString() })),
    );
    this.socket.on("error", () => undefined);
  }

  async until(done: () => boolean): Promise<void> {
    while (!done()) await once(this.socket, "message");
  }

  async execId(): Promise<string> {
    await this.until(() => this.received.length > 0);
    if (this.received[0]?.type !== "started")
      throw new Error(`received ${JSON.stringify(this.received)}`);
    return this.received[0]["exec_id"] as string;
  }
}

/** The status of a refused upgrade. */
async function refusal(open: Open): Promise<number | undefined> {
  const { socket } = new Terminal(open);
  const [, response] = (await once(socket, "unexpected-response")) as [
    unknown,
    { statusCode?: number },
  ];
  socket.terminate();
  return response.statusCode;
}

describe("a terminal", () => {
  it("starts a login shell, transfers bytes both ways, and reports the end", async () => {
    const terminal = new Terminal();
    const exec = await terminal.execId();
    const options = started.at(-1);
    expect(options).toMatchObject({
      command: { kind: "process", pty: { rows: 24, cols: 80 } },
      stdin: "open",
    });
    expect(JSON.stringify(options?.command)).toContain("bash -l");
    terminal.socket.send(Buffer.from("typed €"));
    await terminal.until(() => terminal.text === "typed €");
    terminal.socket.send(JSON.stringify({ type: "resize", rows: 30, cols: 90 }));
    terminal.socket.send(JSON.stringify({ type: "eof" }));
    expect(await terminal.closed).toEqual({ code: 1000, reason: "the command ended" });
    expect(terminal.received.at(-1)).toMatchObject({
      type: "exit",
      exec: { exec_id: exec, exit_code: 0 },
    });
  });

  it("takes text, size and directory from the query", async () => {
    const query = new URLSearchParams({ cmd: "top -d 1", rows: "50", cols: "132", cwd: "/tmp" });
    const terminal = new Terminal({ path: `/v1/sessions/${id}/pty?${query.toString()}` });
    await terminal.execId();
    expect(started.at(-1)).toMatchObject({
      command: { pty: { rows: 50, cols: 132 } },
      cwd: "/tmp",
    });
    expect(JSON.stringify(started.at(-1))).toContain("top -d 1");
    terminal.socket.send(JSON.stringify({ type: "signal", signal: "KILL" }));
    await terminal.closed;
    expect(terminal.received.at(-1)).toMatchObject({
      type: "exit",
      exec: { end_reason: "killed", signal: 9 },
    });
  });

  it("treats zero values of a typed client as absent", async () => {
    const query = "cmd=&shell=&exec_id=&cursor=0&rows=0&cols=0&cwd=";
    const terminal = new Terminal({ path: `/v1/sessions/${id}/pty?${query}` });
    await terminal.execId();
    const options = started.at(-1);
    expect(options).toMatchObject({ command: { pty: { rows: 24, cols: 80 } } });
    expect(JSON.stringify(options?.command)).toContain("bash -l");
    terminal.socket.send(JSON.stringify({ type: "eof" }));
    await terminal.closed;
  });

  it("continues when its socket closes, and can be reattached", async () => {
    const first = new Terminal();
    const exec = await first.execId();
    first.socket.send(Buffer.from("before "));
    await first.until(() => first.text === "before ");
    first.socket.terminate();
    await first.closed;
    await http.call(`/v1/sessions/${id}/execs/${exec}/stdin`, { body: { text: "meanwhile " } });
    const second = new Terminal({
      path: `/v1/sessions/${id}/pty?exec_id=${exec}&cursor=7&rows=10&cols=20`,
    });
    expect(await second.execId()).toBe(exec);
    await second.until(() => second.text === "meanwhile ");
    second.socket.send(Buffer.from("after"));
    await second.until(() => second.text === "meanwhile after");
    second.socket.send(JSON.stringify({ type: "eof" }));
    expect(await second.closed).toMatchObject({ code: 1000 });
  });

  it.each([
    "nonsense",
    "{}",
    '{"type":"resize","rows":0,"cols":1}',
    '{"type":"signal","signal":"NONSENSE"}',
  ])("reports an invalid message, and closes: %s", async (message) => {
    const terminal = new Terminal();
    await terminal.execId();
    terminal.socket.send(message);
    expect(await terminal.closed).toEqual({ code: 4400, reason: "INVALID_REQUEST" });
    expect(terminal.received.at(-1)).toMatchObject({
      type: "error",
      error: { error_code: "INVALID_REQUEST" },
    });
  });

  it("closes with the code of an error, and its message", async () => {
    const own = await http.createSession();
    await http.call(`/v1/sessions/${own}/pause`, { method: "POST" });
    const terminal = new Terminal({ path: `/v1/sessions/${own}/pty` });
    expect(await terminal.closed).toEqual({ code: 4409, reason: "CONFLICT" });
    expect(terminal.received).toMatchObject([{ type: "error", error: { error_code: "CONFLICT" } }]);
  });

  it("answers a ping, and the newest one of a burst", async () => {
    const terminal = new Terminal();
    await terminal.execId();
    const pongs: string[] = [];
    terminal.socket.on("pong", (data: Buffer) => pongs.push(data.toString()));
    for (let ping = 0; ping < 100; ping += 1) terminal.socket.ping(`ping ${ping}`);
    while (pongs.at(-1) !== "ping 99") await once(terminal.socket, "pong");
    terminal.socket.send(JSON.stringify({ type: "eof" }));
    await terminal.closed;
  });

  it("disconnects a client that sends pings and does not read the pongs", async () => {
    const socket = await http.connect();
    socket.on("error", () => undefined);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write(
      `GET /v1/sessions/${id}/pty HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
    );
    await once(socket, "readable");
    const ping = Buffer.concat([Buffer.from([0x89, 0xfd, 0, 0, 0, 0]), Buffer.alloc(125, "x")]);
    const pings = Buffer.concat(Array.from({ length: 5_000 }, () => ping));
    const flood = (): void => {
      while (!socket.destroyed && socket.write(pings));
    };
    socket.on("drain", flood);
    flood();
    await closed;
  });

  it("closes when the daemon stops", async () => {
    await using own = await HttpFixture.start();
    const session = await own.createSession();
    const exec = (
      await own.call(`/v1/sessions/${session}/execs`, { body: { cmd: ["sleep", "1000"] } })
    ).json.exec_id;
    const socket = new WebSocket(
      `ws://127.0.0.1:${own.port}/v1/sessions/${session}/pty?exec_id=${exec}`,
      {
        headers: { authorization: `Bearer ${ALICES_KEY}` },
      },
    );
    await once(socket, "message");
    const closed = once(socket, "close");
    await Promise.all([own.app.close(), closed]);
    const [code, reason] = (await closed) as [number, Buffer];
    expect([code, reason.toString()]).toEqual([1001, "the daemon is stopping"]);
  });

  it("disconnects a client that does not read", async () => {
    const content = Buffer.alloc(7_000_000, "x");
    await http.call(`/v1/sessions/${id}/fs/file?path=big`, { method: "PUT", body: content });
    const exec = (
      await http.call(`/v1/sessions/${id}/execs`, { body: { cmd: ["cat", "/workspace/big"] } })
    ).json.exec_id;
    const terminal = new Terminal({ path: `/v1/sessions/${id}/pty?exec_id=${exec}` });
    await once(terminal.socket, "open");
    terminal.socket.pause();
    const before = http.logLines.length;
    const isOver = (): boolean =>
      http.logLines.slice(before).some((line) => line.includes('"status":101'));
    while (!isOver()) await new Promise(setImmediate);
    terminal.socket.resume();
    expect((await terminal.closed).code).toBe(1006);
    expect(terminal.text.length).toBeLessThan(content.length);
  });

  it("sends pings, and disconnects a client that does not answer", async () => {
    await using own = await HttpFixture.start({ pingIntervalMs: 200 });
    const session = await own.createSession();
    const exec = (
      await own.call(`/v1/sessions/${session}/execs`, { body: { cmd: ["sleep", "1000"] } })
    ).json.exec_id;
    const path = `ws://127.0.0.1:${own.port}/v1/sessions/${session}/pty?exec_id=${exec}`;
    const headers = { authorization: `Bearer ${ALICES_KEY}` };
    const alive = new WebSocket(path, { headers });
    const dead = new WebSocket(path, { headers, autoPong: false });
    let pings = 0;
    alive.on("ping", () => (pings += 1));
    const [code] = (await once(dead, "close")) as [number];
    expect(code).toBe(1006);
    while (pings < 4) await once(alive, "ping");
    expect(alive.readyState).toBe(WebSocket.OPEN);
    alive.terminate();
  });
});

describe("the key of a terminal", () => {
  const bearer = (key: string): string =>
    `sandkasten.bearer.${Buffer.from(key).toString("base64url")}`;

  it("can be a subprotocol, which is never selected in the response", async () => {
    const terminal = new Terminal({
      headers: {},
      protocols: ["sandkasten.v1", bearer(ALICES_KEY)],
    });
    await terminal.execId();
    expect(terminal.socket.protocol).toBe("sandkasten.v1");
    terminal.socket.send(JSON.stringify({ type: "eof" }));
    await terminal.closed;
    const all = http.logLines.join("");
    expect(all).not.toContain(bearer(ALICES_KEY));
    expect(all).not.toContain(ALICES_KEY);
  });

  it.each([
    ["is missing", { headers: {} }, 401],
    ["is wrong", { headers: {}, protocols: ["sandkasten.v1", bearer("wrong")] }, 401],
    ["is empty", { headers: {}, protocols: ["sandkasten.v1", "sandkasten.bearer."] }, 401],
    [
      "comes twice",
      { headers: {}, protocols: ["sandkasten.v1", bearer(ALICES_KEY), bearer("x")] },
      401,
    ],
    ["comes without our protocol", { headers: {}, protocols: [bearer(ALICES_KEY)] }, 401],
    [
      "is wrong in the header",
      { headers: { authorization: "Bearer x" }, protocols: ["sandkasten.v1", bearer(ALICES_KEY)] },
      401,
    ],
    [
      "comes from a foreign page",
      { headers: { authorization: `Bearer ${ALICES_KEY}`, origin: "https://evil.test" } },
      403,
    ],
    ["is somebody else's", { headers: { authorization: `Bearer ${BOBS_KEY}` } }, 404],
  ] as [string, Open, number][])(
    "is refused before anything is opened when it %s",
    async (_name, open, status) => {
      expect(await refusal(open)).toBe(status);
    },
  );

  it("is not the only check before anything is opened", async () => {
    expect(await refusal({ path: "/v1/sessions/ses_none/pty" })).toBe(404);
    expect(await refusal({ path: `/v1/sessions/${id}/pty?exec_id=exe_none` })).toBe(404);
    expect(await refusal({ path: `/v1/sessions/${id}/pty?rows=70000` })).toBe(400);
    expect((await http.call(`/v1/sessions/${id}/pty`)).json).toMatchObject({
      error_code: "INVALID_REQUEST",
    });
  });
});
