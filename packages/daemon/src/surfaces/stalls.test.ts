import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { servedDocument } from "./native/openapi/generate-api-page.ts";
import type { OpenApiDocument, Operation } from "./native/openapi/openapi.ts";
import { ALICES_KEY } from "./testing/http-fixture.ts";
import type { StallServer } from "./testing/stall-server.ts";

/** How long a request can block others. */
const MAX_STALL_MS = 100;
/** The largest JSON that a route reads, and the largest that all of them read. */
const LARGE = 8_388_608;
const SMALL = 262_144;

let child: ChildProcess;
let server: StallServer;
beforeAll(async () => {
  child = fork(new URL("testing/stall-server.ts", import.meta.url));
  [server] = (await once(child, "message")) as [StallServer];
});
afterAll(async () => {
  child.disconnect();
  await once(child, "exit");
});

/** The longest time that the server was blocked, since the last query. */
async function worstStall(): Promise<number> {
  child.send("worst");
  const [worstMs] = (await once(child, "message")) as [number];
  return worstMs;
}

/**
 * The stall that the work itself causes. It occurs each time, unlike a pause of the machine, which is
 * shared with others; so the smallest of three measurements counts.
 */
async function stallOf(work: () => Promise<void>): Promise<number> {
  let leastMs = Infinity;
  for (let round = 0; round < 3 && leastMs >= MAX_STALL_MS; round++) {
    await worstStall();
    await work();
    leastMs = Math.min(leastMs, await worstStall());
  }
  return leastMs;
}

/** A frame of a WebSocket as a client sends it. */
function frame(opcode: number, text = "", final = 0x80): Buffer {
  return Buffer.concat([
    Buffer.from([final + opcode, 0x80 + text.length, 0, 0, 0, 0]),
    Buffer.from(text),
  ]);
}

/** As many as a message can have. */
function emptyFragments(): Buffer[] {
  return Array.from({ length: 16_000 }, () => frame(0, "", 0));
}

interface Attack {
  readonly query?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

const document: OpenApiDocument = await servedDocument();
const routes = Object.entries(document.paths).flatMap(([path, operations]) =>
  Object.entries(operations)
    // WebSockets have separate tests.
    .filter(([method]) => method !== "head" && !path.endsWith("/pty"))
    .map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
);
// Resources that the others need are removed last.
routes.sort((one, other) => Number(one.method === "DELETE") - Number(other.method === "DELETE"));

const named = (prefix: string, count: number, value: string): string =>
  Array.from({ length: count }, (_, index) => `"${prefix}${index}":${value}`).join(",");

/** Bodies of a size that is expensive to read, for a route with these fields. */
function jsonAttacks(fields: readonly string[], size: number): Record<string, string> {
  const inField = (value: string): string =>
    `{${fields.map((field) => `${JSON.stringify(field)}:${value}`).join(",")}}`;
  const count = Math.max(1, fields.length);
  const share = Math.floor(size / count) - 64;
  const items = Math.min(9_000 / count, share / 16);
  return {
    "many names": `{${named("a", size / 16, "1")}}`,
    "as many names as are let in": `{${named("a".repeat(size / 10_000), 9_900, "1")}}`,
    "deep lists": "[".repeat(size),
    "deep objects": '{"a":'.repeat(size / 5),
    "a long list": `{"cmd":[${"1,".repeat(size / 2 - 16)}1]}`,
    "a long number": `{"timeout_ms":${"9".repeat(size - 64)}}`,
    "white space": " ".repeat(size),
    "long texts": inField(JSON.stringify("A".repeat(share - (share % 4)))),
    "long texts of escapes": inField(`"${String.raw`\u0001`.repeat(share / 6)}"`),
    "long texts beyond ASCII": inField(JSON.stringify("\u{1f600}".repeat(share / 4))),
    "lists of texts": inField(`[${'"x",'.repeat(items)}"x"]`),
    "objects of texts": inField(`{${named("A", items, '"x"')}}`),
    "objects with bad names": inField(`{${named("-", items, "1")}}`),
    "a long name": `{"${"a".repeat(size - 64)}":1}`,
    "a long variable": `{"cmd":"true","env":{"${"A".repeat(size - 64)}":"1"}}`,
  };
}

const QUERY_BYTES = 15_000;
const attacksOnHeads: Record<string, Attack> = {
  "many parameters": { query: "a=1&".repeat(QUERY_BYTES / 4) },
  "parameters of one name": { query: "path=1&".repeat(QUERY_BYTES / 7) },
  "a long parameter": { query: `path=${"%C3%BC".repeat(QUERY_BYTES / 6)}` },
  "many headers": {
    headers: Object.fromEntries(
      Array.from({ length: 900 }, (_, index) => [`x-a${index}`, "1"] as const),
    ),
  },
};

function formAttacks(): Record<string, Attack> {
  const form = (parts: number, field: string, content: string): Attack => ({
    headers: { "content-type": "multipart/form-data; boundary=x" },
    body: `${Array.from({ length: parts }, (_, part) => `--x\r\nContent-Disposition: form-data; name="${field}"; filename="n${part}"\r\n\r\n${content}\r\n`).join("")}--x--\r\n`,
  });
  return {
    "many files": form(5_000, "file", ""),
    "many unknown parts": form(5_000, "x", "x"),
    "a large file": form(1, "file", "x".repeat(LARGE)),
  };
}

function fieldsOf({ requestBody }: Operation): readonly string[] | undefined {
  const schema = requestBody?.content["application/json"]?.schema;
  if (schema === undefined) return undefined;
  const name = schema.$ref?.split("/").at(-1);
  const found = (name === undefined ? schema : document.components.schemas[name]) as {
    readonly properties?: object;
  };
  return Object.keys(found.properties ?? {});
}

function attacksOn(operation: Operation, size: number): Record<string, Attack> {
  const fields = fieldsOf(operation);
  const bodies = fields === undefined ? {} : jsonAttacks(fields, size);
  const hasForm = operation.requestBody?.content["multipart/form-data"] !== undefined;
  return {
    ...attacksOnHeads,
    ...Object.fromEntries(Object.entries(bodies).map(([name, body]) => [name, { body }])),
    ...(hasForm && formAttacks()),
  };
}

/** The head of a request with a chunked body. */
function chunkedHead(method: string, path: string, type = "application/octet-stream"): string {
  return `${method} /v1${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nContent-Type: ${type}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n`;
}

const tinyChunks = (): string => "1\r\n \r\n".repeat(400_000);
const FORM_TYPE = "multipart/form-data; boundary=x";
const formPart = (content: string): string =>
  `--x\r\nContent-Disposition: form-data; name="file"; filename="n"\r\n\r\n${content}\r\n`;
const inChunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;

async function send(method: string, path: string, attack: Attack): Promise<number> {
  const { session, exec, workspace } = server.ids;
  const filled = path
    .replace("{id}", path.includes("/workspaces/") ? workspace : session)
    .replace("{eid}", exec);
  const leave = AbortSignal.timeout(20_000);
  try {
    const answer = await fetch(`${server.url}${filled}?${attack.query ?? ""}`, {
      method,
      headers: { authorization: `Bearer ${ALICES_KEY}`, ...attack.headers },
      ...(attack.body !== undefined && method !== "GET" && { body: attack.body }),
      signal: leave,
    });
    const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream") === true;
    await (isStream ? answer.body?.cancel() : answer.arrayBuffer());
    return answer.status;
  } catch (error) {
    // Streams last, and a connection breaks if its body is too long; only the server is measured.
    if (leave.aborted || error instanceof TypeError) return 0;
    throw error;
  }
}

describe("a request with the maximum cost", () => {
  it.each([
    ["that JSON writes as six each", 1],
    ["that are not UTF-8", 0xff],
  ])("does not stall other requests if its response has megabytes %s", async (_name, byte) => {
    const content = Buffer.alloc(6_000_000, byte).toString("base64");
    const asked = { cmd: ["cat"], stdin_base64: content, output_budget_bytes: 16_777_216 };
    const body = JSON.stringify({ ...asked, raw_output: true });
    const ran = stallOf(async () => {
      expect(await send("POST", "/v1/sessions/{id}/exec", { body })).toBe(200);
    });
    expect(await ran).toBeLessThan(MAX_STALL_MS);
    const file = JSON.stringify({ path: "large", content_base64: content });
    const query = "path=large&max_bytes=16777216";
    const read = stallOf(async () => {
      expect(await send("POST", "/v1/sessions/{id}/fs/write", { body: file })).toBe(200);
      expect(await send("GET", "/v1/sessions/{id}/fs/read", { query })).toBe(200);
    });
    expect(await read).toBeLessThan(MAX_STALL_MS);
  });

  it.each(routes)(
    "does not stall other requests: $method $path",
    async ({ method, path, operation }) => {
      const tooMuch = await send(method, path, { body: " ".repeat(SMALL + 1) });
      const stalls: string[] = [];
      for (const [name, attack] of Object.entries(
        attacksOn(operation, tooMuch === 413 ? SMALL : LARGE),
      )) {
        const worstMs = await stallOf(async () => void (await send(method, path, attack)));
        if (worstMs >= MAX_STALL_MS) stalls.push(`${name}: ${Math.round(worstMs)} ms`);
      }
      expect(stalls).toEqual([]);
    },
  );

  it.each([
    ["thousands of requests ahead of the responses", () => "GET / HTTP/1.1\r\n\r\n".repeat(50_000)],
    [
      "a JSON body in tiny chunks",
      () => chunkedHead("POST", "/workspaces/stalls/fs/write") + tinyChunks(),
    ],
    [
      "a file in tiny chunks",
      () => chunkedHead("PUT", "/workspaces/stalls/fs/file?path=x") + tinyChunks(),
    ],
    [
      "a file of a session in tiny chunks",
      () => chunkedHead("PUT", `/sessions/${server.ids.session}/fs/file?path=x`) + tinyChunks(),
    ],
    [
      "a tar archive in tiny chunks",
      () => chunkedHead("PUT", `/sessions/${server.ids.session}/fs/tar`) + tinyChunks(),
    ],
    [
      "an image in tiny chunks",
      () => chunkedHead("POST", "/images/import?reference=stalls") + tinyChunks(),
    ],
    [
      "a form in tiny chunks",
      () =>
        chunkedHead("POST", "/workspaces/stalls/fs/upload", FORM_TYPE) +
        inChunk(formPart("").slice(0, -2)) +
        tinyChunks(),
    ],
    [
      "a form of tiny files",
      () =>
        chunkedHead("POST", "/workspaces/stalls/fs/upload", FORM_TYPE) +
        inChunk(formPart("").repeat(20_000)),
    ],
    [
      "tiny chunks that a route without a body must discard",
      () => chunkedHead("DELETE", "/workspaces/missing") + tinyChunks(),
    ],
  ])("does not stall other requests if a connection sends %s", async (_name, textOf) => {
    const text = textOf();
    const stall = stallOf(async () => {
      const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
      socket.on("error", () => undefined).resume();
      socket.end(text);
      await new Promise<void>((resolve) => {
        socket.once("close", () => resolve()).setTimeout(1_000, () => resolve());
      });
      socket.destroy();
    });
    expect(await stall).toBeLessThan(MAX_STALL_MS);
  });

  it.each([
    ["text that is not JSON", frame(1, "x".repeat(100))],
    ["texts without a meaning", frame(1, "{}")],
    ["empty texts", frame(1)],
    ["empty input", frame(2)],
    ["empty pongs", frame(10)],
    ["empty pings", frame(9)],
    [
      "messages of empty fragments",
      Buffer.concat([frame(2, "", 0), ...emptyFragments(), frame(0)]),
    ],
  ])("does not stall other requests if WebSockets send %s", async (_name, flood) => {
    const { session } = server.ids;
    const head = `GET /v1/sessions/${session}/pty HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`;
    const frames = Buffer.concat(
      Array.from({ length: Math.ceil(524_288 / flood.byteLength) }, () => flood),
    );
    const stall = stallOf(async () => {
      const sockets = Array.from({ length: 4 }, () =>
        connect(Number(new URL(server.url).port), "127.0.0.1").on("error", () => undefined),
      );
      await Promise.all(
        sockets.map(async (socket) => {
          socket.write(head);
          await once(socket, "data");
          const send = (): void => {
            while (!socket.destroyed && socket.write(frames));
          };
          socket.on("drain", send).resume();
          send();
        }),
      );
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      for (const socket of sockets) socket.destroy();
    });
    expect(await stall).toBeLessThan(MAX_STALL_MS);
  });

  it("does not stall other requests longer if many arrive at once", async () => {
    const body = JSON.stringify({ path: "x", text: "\u{1f600}".repeat((LARGE - 64) / 4) });
    const stall = stallOf(async () => {
      await Promise.all(
        Array.from({ length: 8 }, () => send("POST", "/v1/workspaces/{id}/fs/write", { body })),
      );
    });
    expect(await stall).toBeLessThan(MAX_STALL_MS);
  });
});
