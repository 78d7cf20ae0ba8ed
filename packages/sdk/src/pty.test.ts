import { describe, expect, test } from "vitest";
import { WebSocket as WsWebSocket } from "ws";
import { failure, ScriptedServer } from "./testing/scripted-server.ts";
import { refuseTerminals, serveTerminals, type Terminal } from "./testing/terminal-server.ts";
import { execInfoBody, sessionOf } from "./testing/wire-samples.ts";

const started = { type: "started", exec_id: "exe_1" } as const;
const exit = { type: "exit", exec: execInfoBody } as const;

async function textOf(output: AsyncIterable<Uint8Array>): Promise<string> {
  return Buffer.concat(await Array.fromAsync(output)).toString();
}

/** A server with one terminal, which starts as scripted. */
async function terminalServer(
  begin: (terminal: Terminal) => void = (terminal) => terminal.send(started),
): Promise<{ readonly server: ScriptedServer; readonly terminal: Promise<Terminal> }> {
  const server = await ScriptedServer.start();
  const { promise, resolve } = Promise.withResolvers<Terminal>();
  serveTerminals(server, (terminal) => {
    begin(terminal);
    resolve(terminal);
  });
  return { server, terminal: promise };
}

describe("pty()", () => {
  test("sends the key as a subprotocol and never in the address", async () => {
    const { server, terminal } = await terminalServer();
    await using _ = server;
    using pty = await sessionOf(server, { apiKey: "sk/+~secret" }).pty({
      cmd: "top -b",
      cwd: "/tmp",
      rows: 30,
      cols: 100,
    });
    const { url, offered } = await terminal;
    expect(pty.execId).toBe("exe_1");
    expect(url).toBe("/v1/sessions/ses_1/pty?cmd=top+-b&cwd=%2Ftmp&rows=30&cols=100");
    expect(offered).toEqual([
      "sandkasten.v1",
      `sandkasten.bearer.${Buffer.from("sk/+~secret").toString("base64url")}`,
    ]);
  });

  test("transfers bytes both ways and ends with the command", async () => {
    const { server, terminal } = await terminalServer();
    await using _ = server;
    const pty = await sessionOf(server).pty();
    const daemon = await terminal;
    pty.write("ls\r");
    pty.write(new Uint8Array([0, 0xff]));
    pty.resize({ rows: 1, cols: 2 });
    pty.signal("INT");
    pty.eof();
    expect(await daemon.messages(5)).toEqual([
      Buffer.from("ls\r"),
      Buffer.from([0, 0xff]),
      '{"type":"resize","rows":1,"cols":2}',
      '{"type":"signal","signal":"INT"}',
      '{"type":"eof"}',
    ]);
    daemon.print("one ");
    daemon.print("two");
    daemon.send(exit);
    expect(await textOf(pty)).toBe("one two");
    expect(await pty.exited).toMatchObject({ exitCode: 0, execId: "exe_1" });
    expect(() => pty.write("x")).toThrow(/has ended/);
    expect(await daemon.closed).toBe(1000);
  });

  test("splits large input into messages that the daemon accepts", async () => {
    const { server, terminal } = await terminalServer();
    await using _ = server;
    using pty = await sessionOf(server).pty();
    pty.write(new Uint8Array(65_537).fill(7));
    const sizes = (await (await terminal).messages(2)).map(({ length }) => length);
    expect(sizes).toEqual([65_536, 1]);
  });

  test("delivers what arrived before the first loop, and the rest to a second loop", async () => {
    const { server } = await terminalServer((terminal) => {
      terminal.send(started);
      for (const text of ["a", "b", "c"]) terminal.print(text);
      terminal.send(exit);
    });
    await using _ = server;
    const pty = await sessionOf(server).pty();
    await pty.exited;
    for await (const bytes of pty) {
      expect(Buffer.from(bytes).toString()).toBe("a");
      break;
    }
    expect(await textOf(pty)).toBe("bc");
  });

  test("reattaches at a cursor, which counts received and missing bytes", async () => {
    const { server, terminal } = await terminalServer((daemon) => {
      daemon.send(started);
      daemon.send({ type: "skipped", bytes: 10 });
      daemon.print("four");
    });
    await using _ = server;
    using pty = await sessionOf(server).pty({ execId: "exe_1", cursor: 100 });
    for await (const _bytes of pty) break;
    expect((await terminal).url).toBe("/v1/sessions/ses_1/pty?exec_id=exe_1&cursor=100");
    expect(pty.cursor).toBe(114);
  });

  test("reports if the connection breaks before the command ends", async () => {
    const { server, terminal } = await terminalServer();
    await using _ = server;
    const pty = await sessionOf(server).pty();
    const daemon = await terminal;
    daemon.print("partial");
    const received: string[] = [];
    const reading = (async () => {
      for await (const bytes of pty) {
        received.push(Buffer.from(bytes).toString());
        daemon.terminate();
      }
    })();
    await expect(reading).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
    await expect(pty.exited).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
    expect(received).toEqual(["partial"]);
  });

  test("rebuilds an error from the daemon", async () => {
    const { server } = await terminalServer((terminal) => {
      const error = { error_code: "SESSION_EXPIRED", message: "the lease is over" };
      terminal.send({ type: "error", error });
      terminal.close(4410, "the lease is over");
    });
    await using _ = server;
    await expect(sessionOf(server).pty()).rejects.toMatchObject({
      code: "SESSION_EXPIRED",
      message: "the lease is over",
      status: 410,
    });
  });

  test("finds out why the connection was refused, which a WebSocket does not report", async () => {
    await using server = await ScriptedServer.start(failure(401, "UNAUTHORIZED"));
    refuseTerminals(server, 401);
    await expect(sessionOf(server).pty({ rows: 5 })).rejects.toMatchObject({
      code: "UNAUTHORIZED",
    });
    expect(server.lines).toEqual(["GET /v1/sessions/ses_1/pty?rows=5"]);
  });

  test("reports that the daemon does not listen", async () => {
    const server = await ScriptedServer.start();
    const session = sessionOf(server);
    await server[Symbol.asyncDispose]();
    await expect(session.pty()).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  });

  test("close() detaches: the loop ends, and the result of the command is unknown", async () => {
    const { server, terminal } = await terminalServer();
    await using _ = server;
    const pty = await sessionOf(server).pty();
    pty.close();
    expect(await textOf(pty)).toBe("");
    await expect(pty.exited).rejects.toMatchObject({ code: "CANCELLED" });
    expect(await (await terminal).closed).toBe(1000);
  });

  test("is aborted by its signal, before it is open and after", async () => {
    const { server, terminal } = await terminalServer();
    await using _ = server;
    const reason = new Error("enough");
    const session = sessionOf(server);
    await expect(session.pty({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const caller = new AbortController();
    const pty = await session.pty({ signal: caller.signal });
    caller.abort(reason);
    await expect(textOf(pty)).rejects.toBe(reason);
    await expect(pty.exited).rejects.toBe(reason);
    await (
      await terminal
    ).closed;
  });

  test("is aborted by its signal while the daemon prepares it", async () => {
    const caller = new AbortController();
    const reason = new Error("enough");
    const { server } = await terminalServer(() => caller.abort(reason));
    await using _ = server;
    await expect(sessionOf(server).pty({ signal: caller.signal })).rejects.toBe(reason);
  });

  test("uses the client's own WebSocket", async () => {
    const { server } = await terminalServer((terminal) => {
      terminal.send(started);
      terminal.print("hi");
      terminal.send(exit);
    });
    await using _ = server;
    const pty = await sessionOf(server, { webSocket: WsWebSocket }).pty();
    expect(await textOf(pty)).toBe("hi");
  });
});
