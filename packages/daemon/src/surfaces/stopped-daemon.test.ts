/** A daemon that was stopped for longer than it waits for clients must not blame the clients. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket } from "ws";
import { ALICES_KEY } from "./testing/http-fixture.ts";
import type { StoppedServer } from "./testing/stopped-server.ts";

/** More than twice the server's timeout. */
const STOPPED_MS = 5_000;
/** More than the buffers of a connection hold. */
const LARGE_BYTES = 32 * 1_048_576;
const headers = { authorization: `Bearer ${ALICES_KEY}` };

let child: ChildProcess;
let server: StoppedServer;
beforeAll(async () => {
  child = fork(new URL("testing/stopped-server.ts", import.meta.url));
  [server] = (await once(child, "message")) as [StoppedServer];
});
afterAll(async () => {
  child.disconnect();
  await once(child, "exit");
});

async function stopAndContinue(meanwhile: () => void = () => undefined): Promise<void> {
  child.kill("SIGSTOP");
  meanwhile();
  await sleep(STOPPED_MS);
  child.kill("SIGCONT");
  // Its timers run before it reads.
  await sleep(200);
}

/** Sends the first part of a body and returns the request to complete it. */
async function begin(path: string, type: string, body: string): Promise<ClientRequest> {
  const url = `${server.url}/v1/sessions/${server.session}${path}`;
  const method = type === "application/octet-stream" ? "PUT" : "POST";
  const sent = request(url, { method, headers: { ...headers, "content-type": type } });
  sent.write(body);
  await once(sent, "socket");
  return sent;
}

async function statusOf(sent: ClientRequest): Promise<number | undefined> {
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.resume();
  return answer.statusCode;
}

it("continues requests whose bodies were in progress", async () => {
  const form = '--x\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n';
  const halves: readonly [ClientRequest, string][] = [
    [await begin("/exec", "application/json", '{"cmd":'), '"true"}'],
    [await begin("/fs/file?path=a", "application/octet-stream", "one"), "two"],
    [
      await begin("/fs/upload", "multipart/form-data; boundary=x", `${form}one`),
      "two\r\n--x--\r\n",
    ],
  ];
  await sleep(100);
  await stopAndContinue();
  const answers = halves.map(([sent]) => statusOf(sent));
  for (const [sent, rest] of halves) sent.end(rest);
  expect(await Promise.all(answers)).toEqual([200, 200, 200]);
}, 30_000);

it("continues a response that the client had not read", async () => {
  const url = `${server.url}/v1/sessions/${server.session}/fs/file?path=large`;
  const body = Buffer.alloc(LARGE_BYTES, 1);
  expect((await fetch(url, { method: "PUT", headers, body })).ok).toBe(true);
  const asked = request(url, { headers }).end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  await sleep(100);
  await stopAndContinue();
  let bytes = 0;
  for await (const piece of answer) bytes += (piece as Buffer).byteLength;
  expect(bytes).toBe(LARGE_BYTES);
}, 30_000);

it("keeps a terminal whose pong it had not read", async () => {
  const url = `${server.url.replace("http", "ws")}/v1/sessions/${server.session}/pty?cmd=cat`;
  await using stack = new AsyncDisposableStack();
  const socket = new WebSocket(url, ["sandkasten.v1"], { headers, autoPong: false });
  stack.defer(() => socket.terminate());
  await once(socket, "ping");
  await stopAndContinue(() => socket.pong());
  expect(socket.readyState).toBe(WebSocket.OPEN);
  socket.send(Buffer.from("typed\n"));
  let text = "";
  while (!text.includes("typed")) text += String((await once(socket, "message"))[0]);
}, 30_000);
