/** Hostile clients of networks and ports: outside, with another tenant's key, and inside a sandbox. */
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxClient } from "@sandkasten/sdk";
import type { Session } from "@sandkasten/sdk";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { UnharmedDaemon } from "../support/oracles/unharmed-daemon.ts";
import { frame, RawWebSocket, requestHead, sendRaw, statusOf } from "../support/raw-http.ts";
import { startNameServer } from "../support/name-server.ts";
import type { NameServer } from "../support/name-server.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const VICTIM_KEY = "key-of-the-victim";
const ATTACKER_KEY = "key-of-the-attacker";
const SECRET = "only-the-victim-may-read-this";
const PORT = 8000;
/** A server controlled by the attacker that does not follow HTTP. */
const HOSTILE_PORT = 8001;
/** Connections to it stay open. */
const SILENT_PORT = HOSTILE_PORT + 1;

const FILES = join(import.meta.dirname, "../support/hostile-network");

let daemon: TestDaemon;
let names: NameServer;
let web: Server;
let webPort: number;
/** Requests that reached the server on the other side of the gateway. */
let reached = "";
let victim: Session;
let attacker: Session;

beforeAll(async () => {
  names = await startNameServer();
  web = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (bytes: Buffer) => {
      reached += bytes.toString("latin1");
      if (bytes.includes("/endless")) socket.write("HTTP/1.1 200 OK\r\n\r\n");
      else socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
  });
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  webPort = (web.address() as AddressInfo).port;
  daemon = await TestDaemon.start({
    settings: {
      API_KEYS: `victim=${VICTIM_KEY},attacker=${ATTACKER_KEY}`,
      NETWORK_ALLOW: `web.test:${webPort},127.0.0.1:${webPort}`,
      NETWORK_NAME_SERVERS: names.address,
    },
  });
  const allow = [`web.test:${webPort}`, `127.0.0.1:${webPort}`];
  const create = async (apiKey: string): Promise<Session> =>
    await new SandboxClient({ baseUrl: daemon.url, apiKey }).createSession({ network: { allow } });
  [victim, attacker] = await Promise.all([create(VICTIM_KEY), create(ATTACKER_KEY)]);
  await victim.exec(`curl -s -o /dev/null http://${SECRET}.test/`);
  for (const session of [victim, attacker]) {
    await session.write("index.html", session === victim ? SECRET : "the attacker's page");
    await session.exec(`/usr/bin/python3 -m http.server ${PORT} >/dev/null 2>&1 &`);
    while ((await session.ports()).length === 0) await sleep(20);
  }
  for (const name of ["client.py", "server.py"])
    await attacker.write(name, await readFile(join(FILES, name)));
  await attacker.start(["/usr/bin/python3", "server.py", String(HOSTILE_PORT)]);
  while ((await attacker.ports()).length < 3) await sleep(20);
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  web.close();
  await names[Symbol.asyncDispose]();
});

/** What attacks must not achieve, whatever the responses are. */
let oracle: UnharmedDaemon;
beforeEach(async () => {
  oracle = await UnharmedDaemon.watch(daemon);
});
afterEach(async () => await oracle.check());

const host = (): string => new URL(daemon.url).host;
const withKey = (key: string, ...more: readonly Header[]): readonly Header[] => [
  ["Host", host()],
  ["Authorization", `Bearer ${key}`],
  ["Connection", "close"],
  ...more,
];
type Header = readonly [string, string];

/** Sends each request, and returns the statuses. No response may contain the victim's data. */
async function statuses(requests: readonly (string | Buffer)[]): Promise<number[]> {
  const answers = await Promise.all(
    requests.map(async (request) => await sendRaw(daemon.url, request)),
  );
  for (const answer of answers) expect(answer).not.toContain(SECRET);
  return answers.map(statusOf);
}

/** A request with a body, with the attacker's key unless the headers say otherwise. */
function withBody(
  method: string,
  path: string,
  body: string,
  more: readonly Header[] = [],
): string {
  const length: Header = ["Content-Length", String(Buffer.byteLength(body))];
  const headers = withKey(ATTACKER_KEY, ["Content-Type", "application/json"], ...more);
  const hasLength = more.some(([name]) => /^(?:content-length|transfer-encoding)$/i.test(name));
  return requestHead(method, path, hasLength ? headers : [...headers, length]) + body;
}

describe("another tenant", () => {
  const UPGRADE: readonly Header[] = [
    ["Connection", "Upgrade"],
    ["Upgrade", "websocket"],
    ["Sec-WebSocket-Version", "13"],
    ["Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="],
  ];

  it("learns nothing about a session, not even that it exists", async () => {
    const unknown = `ses_${"0".repeat(24)}`;
    const requests = (id: string): string[] => {
      const path = `/v1/sessions/${id}`;
      const head = (rest: string, ...more: readonly Header[]): string =>
        requestHead("GET", path + rest, withKey(ATTACKER_KEY, ...more));
      return [
        withBody("PUT", `${path}/network`, '{"allow":[]}'),
        head("/egress"),
        head("/egress/stream"),
        head("/ports"),
        withBody("POST", `${path}/ports/${PORT}/url`, "{}"),
        head(`/proxy/${PORT}/`),
        head(`/proxy/${PORT}/`, ...UPGRADE.slice(1)),
        requestHead("GET", `${path}/ports/${PORT}/connect`, [
          ...withKey(ATTACKER_KEY).slice(0, 2),
          ...UPGRADE,
        ]),
        requestHead("GET", "/", [
          ["Host", `${PORT}-${id.replace("_", "-")}.localhost`],
          ...withKey(ATTACKER_KEY).slice(1),
        ]),
      ];
    };
    expect(await statuses(requests(victim.id))).toEqual(Array(9).fill(404));
    expect(await statuses(requests(unknown))).toEqual(Array(9).fill(404));
    // The victim's rules are unchanged.
    expect(
      (await victim.exec(`curl -s -o /dev/null -w '%{http_code}' http://web.test:${webPort}/`))
        .stdout,
    ).toBe("200");
  });

  it("opens no port with a link for another one, nor with an expired or changed one", async () => {
    const link = new URL(await attacker.url(PORT));
    const own = link.searchParams.get("sandkasten_token") ?? "";
    const short = new URL(await attacker.url(PORT, { expiresInSeconds: 1 }));
    const over = short.searchParams.get("sandkasten_token") ?? "";
    const [end = "", mac = ""] = own.split(".");
    const later = `${(Number.parseInt(end, 36) + 1e6).toString(36)}.${mac}`;
    const label = (id: string, port = PORT): string =>
      `${port}-${id.replace("_", "-")}.localhost:${link.port}`;
    const visits = (token: string, id: string, port = PORT): string[] => [
      requestHead("GET", `/?sandkasten_token=${token}`, [
        ["Host", label(id, port)],
        ["Connection", "close"],
      ]),
      requestHead("GET", "/", [
        ["Host", label(id, port)],
        ["Cookie", `sandkasten_preview=${token}`],
        ["Connection", "close"],
      ]),
      requestHead("GET", `/v1/sessions/${id}/proxy/${port}~${token}/`, [
        ["Host", host()],
        ["Connection", "close"],
      ]),
    ];
    expect(await statuses(visits(own, attacker.id))).toEqual([200, 200, 200]);
    while (Date.now() <= Number.parseInt(over.split(".")[0] ?? "", 36) * 1000) await sleep(50);
    const refused = [
      ...visits(own, victim.id),
      ...visits(own, attacker.id, 22),
      ...visits(over, attacker.id),
      ...visits(later, attacker.id),
      ...visits(`${own}A`, attacker.id),
      ...visits(`${end}.${mac.slice(0, -1)}`, attacker.id),
      ...visits(own.toUpperCase(), attacker.id),
      ...visits(".", attacker.id),
      ...visits("a".repeat(300), attacker.id),
    ];
    const answered = await statuses(refused);
    expect(answered.filter((status) => status < 400 || status >= 500)).toEqual([]);
    // A link's token is not a key.
    const asKey = await statuses([requestHead("GET", "/v1/sessions", withKey(own))]);
    expect(asKey).toEqual([401]);
  });

  it("reaches nothing with an invalid Host", async () => {
    const of = (id: string): string => `${PORT}-${id.replace("_", "-")}.localhost`;
    const mine = of(attacker.id);
    const hosts = [
      `${mine}.`,
      `${mine}.evil.test`,
      `x.${mine}`,
      `evil@${mine}`,
      `${mine}@evil`,
      `${mine}:0x50`,
      `${mine}:99999999`,
      `${mine}/`,
      `${mine}%00`,
      mine.replace("8000-", "08000-"),
      mine.replace("8000-", "65536-"),
      mine.replace("8000-", "0-"),
      mine.replace("8000-", "-8000-"),
      `evil.test`,
      "",
    ];
    const get = (path: string, ...named: readonly string[]): string =>
      requestHead("GET", path, [
        ...named.map((name) => ["Host", name] as const),
        ...withKey(ATTACKER_KEY).slice(1),
      ]);
    const victims = of(victim.id);
    const requests = [
      ...hosts.map((name) => get("/v1/sessions", name)),
      get("/v1/sessions", mine, victims),
      get("/v1/sessions", victims, mine),
      get("/v1/sessions"),
      get(`http://${victims}/`, mine),
      requestHead("CONNECT", `${victims}:80`, [["Host", mine], ...withKey(ATTACKER_KEY).slice(1)]),
    ];
    const answered = await statuses(requests);
    // Some are closed without a response.
    const isRefused = (status: number): boolean => status === 0 || (status >= 400 && status < 500);
    expect(requests.filter((_, index) => !isRefused(answered[index] ?? 0))).toEqual([]);
    for (const named of [...hosts.map((name) => [name]), [mine, victims], [mine, mine], []])
      expect(await sendRaw(daemon.url, get("/", ...named))).not.toContain("the attacker's page");
    expect(await sendRaw(daemon.url, get("/", mine))).toContain("the attacker's page");
  });
});

describe("a malformed request", () => {
  it("to change a network is refused, however large, deep or short it is", async () => {
    const path = `/v1/sessions/${attacker.id}/network`;
    const rules = (allow: unknown): string => JSON.stringify({ allow });
    const bodies = [
      "",
      "{",
      "[]",
      "null",
      "true",
      '"all"',
      "{}x",
      '{"allow":{}}',
      '{"allow":"*"}',
      rules([1]),
      rules([null]),
      rules([""]),
      rules(["*".repeat(513)]),
      rules(Array(513).fill("web.test")),
      rules(["web.test:0"]),
      rules(["web.test:65536"]),
      rules(["web.test:9-1"]),
      rules(["web.test:1e3"]),
      rules(["web.test:80:80"]),
      rules(["10.0.0.0/33:80"]),
      rules(["10.0.0.0/-1"]),
      rules(["[::1"]),
      rules(["web.test/../x"]),
      rules(["web.test\u0000"]),
      rules(["web.test\r\nX: y"]),
      rules(["ẃeb.test"]),
      rules(["*.*.test"]),
      rules(["**"]),
      rules(["full"]),
      rules(["*"]),
      rules(["0.0.0.0/0:1-65535"]),
      rules(["no-such-preset"]),
      `{"allow":${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
      '{"__proto__":{"allow":["*"]}}',
      '{"allow":[],"allow":["*"]}',
    ];
    const answered = await statuses(bodies.map((body) => withBody("PUT", path, body)));
    const taken = bodies.filter((_, index) => {
      const status = answered[index] ?? 0;
      return status < 400 || status >= 500;
    });
    expect(taken).toEqual([]);
    const cut = [
      withBody("PUT", path, '{"allow"', [["Content-Length", "500"]]),
      withBody("PUT", path, '5\r\n{"all', [["Transfer-Encoding", "chunked"]]),
      requestHead("PUT", path, withKey(ATTACKER_KEY)).slice(0, -2),
    ];
    await Promise.all(cut.map(async (bytes) => await sendRaw(daemon.url, bytes, { leaves: true })));
    const broken = await statuses([
      withBody("PUT", path, "zz\r\n{}\r\n0\r\n\r\n", [["Transfer-Encoding", "chunked"]]),
      withBody("PUT", path, "{}", [
        ["Content-Length", "2"],
        ["Transfer-Encoding", "chunked"],
      ]),
      withBody("PUT", path, "{}", [["Content-Length", "99999999999"]]),
    ]);
    expect(broken.filter((status) => status < 400 || status >= 500)).toEqual([]);
    const { stdout } = await attacker.exec(
      `curl -s -o /dev/null -w '%{http_code}' http://web.test:${webPort}/`,
    );
    expect(stdout).toBe("200");
  });

  it("for the record is refused or answered, and streams without readers are closed", async () => {
    const path = `/v1/sessions/${attacker.id}`;
    const get = (rest: string, ...more: readonly Header[]): string =>
      requestHead("GET", path + rest, withKey(ATTACKER_KEY, ...more));
    const refused = [
      get("/egress?cursor=-1"),
      get("/egress?cursor=1e999"),
      get("/egress?cursor=NaN"),
      get("/egress?cursor=1&cursor=2"),
      get("/egress?limit=-1"),
      get("/egress?limit=100000000"),
      get("/egress?cursor=99999999999999999999"),
      get("/egress/stream?cursor=x"),
      get("/egress/stream", ["Last-Event-ID", "-1"]),
      get("/egress/stream", ["Last-Event-ID", "1\u00001"]),
      get("/egress/%2e%2e/network"),
      get("/ports/0/connect"),
      get("/ports/65536/connect"),
      get(`/ports/${PORT}/connect`),
      get("/proxy/0/"),
      get("/proxy/65536/"),
      get("/proxy/080/"),
      get("/proxy/80%2f/"),
    ];
    const answered = await statuses(refused);
    expect(refused.filter((_, index) => Math.floor((answered[index] ?? 0) / 100) !== 4)).toEqual(
      [],
    );
    const abandoned = Array.from(
      { length: 40 },
      async () => await sendRaw(daemon.url, get("/egress/stream"), { leaves: true }),
    );
    await Promise.all(abandoned);
  });

  it("to a preview carries no second request, and no key", async () => {
    const path = `/v1/sessions/${attacker.id}/proxy/${HOSTILE_PORT}`;
    const hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    const post = (body: string, ...headers: readonly Header[]): string =>
      requestHead("POST", `${path}/first`, withKey(ATTACKER_KEY, ...headers)) + body;
    const answered = await statuses([
      post(`0\r\n\r\n${hidden}`, ["Content-Length", "5"], ["Transfer-Encoding", "chunked"]),
      post(hidden, ["Content-Length", "0"], ["Content-Length", String(hidden.length)]),
      post(`0\r\n\r\n${hidden}`, ["Transfer-Encoding", "chunked, identity"]),
      post(`0\r\n\r\n${hidden}`, ["Transfer-Encoding ", "chunked"]),
      post(`0\r\n\r\n${hidden}`, ["Transfer-Encoding", "xchunked"]),
      post("0\r\n\r\n", ["Transfer-Encoding", "gzip, chunked"]),
      post(hidden, ["X", `a\r${hidden.trim()}`]),
      post(hidden, ["X", `a\n${hidden.trim()}`]),
      requestHead("GET", `${path}/x\r\n${hidden.trim()}`, withKey(ATTACKER_KEY)),
    ]);
    expect(answered.filter((status) => status >= 500 || (status >= 200 && status < 400))).toEqual(
      [],
    );
    const behind = await statuses([
      post(`ok${hidden}`, ["Content-Length", "2"]),
      post(`2\r\nok\r\n0\r\n\r\n${hidden}`, ["Transfer-Encoding", "chunked"]),
    ]);
    expect(behind.filter((status) => status >= 500)).toEqual([]);
    const encoded = encodeURIComponent(` HTTP/1.1\r\n\r\n${hidden}`);
    expect(
      await statuses([requestHead("GET", `${path}/${encoded}`, withKey(ATTACKER_KEY))]),
    ).toEqual([200]);
    const seen = await attacker.readText("seen");
    expect(seen).not.toMatch(/^GET \/hidden/m);
    expect(seen).not.toContain(ATTACKER_KEY);
    expect(seen).toContain("GET /%20HTTP");
  });

  it("gets no response that a hostile server has forged", async () => {
    const paths = [
      "/both",
      "/lengths",
      "/noise",
      "/nothing",
      "/huge",
      "/switch",
      "/status",
      "/split",
    ];
    const answered = await statuses(
      paths.map((path) =>
        requestHead(
          "GET",
          `/v1/sessions/${attacker.id}/proxy/${HOSTILE_PORT}${path}`,
          withKey(ATTACKER_KEY),
        ),
      ),
    );
    expect(Object.fromEntries(paths.map((path, index) => [path, answered[index]]))).toEqual(
      Object.fromEntries(paths.map((path) => [path, 502])),
    );
  });
});

describe("a WebSocket to a port", () => {
  const TEXT = 0x81;
  const BINARY = 0x82;
  const INVALID = 4400;

  it.each([
    ["frames without a mask", 1002, frame(BINARY, "x", { isMasked: false })],
    ["reserved bits", 1002, frame(0xf2, "x")],
    ["an unknown kind of frame", 1002, frame(0x83, "x")],
    ["a control frame in parts", 1002, frame(0x09, "x")],
    ["a continuation of nothing", 1002, frame(0x80, "x")],
    ["a frame without end", 1009, frame(BINARY, "x", { length: 2n ** 40n })],
    ["text that is not UTF-8", 1007, frame(TEXT, Buffer.from([0xc3, 0x28]))],
    ["a control message that is not JSON", INVALID, frame(TEXT, "{")],
    ["an unknown control message", INVALID, frame(TEXT, '{"type":"resize"}')],
    ["more acknowledged than was sent", INVALID, frame(TEXT, '{"type":"ack","bytes":1}')],
    [
      "bytes after the end",
      INVALID,
      Buffer.concat([frame(TEXT, '{"type":"eof"}'), frame(BINARY, "x")]),
    ],
  ])("ends at %s", async (_, code, bytes) => {
    const path = `/v1/sessions/${attacker.id}/ports/${SILENT_PORT}/connect`;
    const socket = await RawWebSocket.open(daemon.url, path, ATTACKER_KEY);
    socket.send(bytes);
    expect(await socket.closeCode()).toBe(code);
  });

  it("is closed when its client disappears in the middle of a frame", async () => {
    const path = `/v1/sessions/${attacker.id}/ports/${SILENT_PORT}/connect`;
    await Promise.all(
      Array.from({ length: 20 }, async (_each, index) => {
        const socket = await RawWebSocket.open(daemon.url, path, ATTACKER_KEY);
        socket.send(frame(BINARY, "x".repeat(200)).subarray(0, index * 8));
        socket.leave();
      }),
    );
  });
});

describe("a program in the sandbox", () => {
  /** The result of each attack. */
  const attack = async (kind: string): Promise<Record<string, string>> => {
    const { stdout, stderr } = await attacker.exec(`/usr/bin/python3 client.py ${webPort} ${kind}`);
    expect(stderr).toBe("");
    return Object.fromEntries(
      stdout
        .trimEnd()
        .split("\n")
        .map((line) => line.split(": ", 2)),
    );
  };
  const BAD = "HTTP/1.1 400 Bad Request";

  it("breaks no name server, and queries none outside for forbidden names", async () => {
    expect(await attack("dns")).toEqual({
      // Response code, and how many addresses.
      answer: "silence",
      update: "4/0",
      "many questions": "1/0",
      "no question": "1/0",
      loop: "1/0",
      "beyond the end": "1/0",
      "long label": "1/0",
      "long name": "1/0",
      "zero byte": "1/0",
      tunnel: "3/0",
      transfer: "0/0",
      any: "0/1",
      stream: "0/1",
      "stream that lies": "0",
      "empty stream": "0",
      afterwards: "0/1",
    });
    expect([...names.asked].filter((name) => name.includes("evil"))).toEqual([]);
  });

  it("breaks no HTTP proxy", async () => {
    reached = "";
    const {
      "two hosts": twoHosts,
      "second request": second,
      "huge chunk": chunk,
      ...others
    } = await attack("proxy");
    expect(new Set(Object.values(others))).toEqual(new Set([BAD]));
    expect([twoHosts, second, chunk]).toEqual(["HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "closed"]);
    expect(reached).not.toMatch(/^GET \/hidden/m);
    expect(reached).not.toContain("evil.test");
  });

  it("breaks no SOCKS proxy", async () => {
    expect(await attack("socks")).toEqual({
      "version 4": "closed",
      "no method": "05ff",
      "only passwords": "05ff",
      truncated: "0500",
      bind: "0500 0507",
      udp: "0500 0507",
      "unknown kind": "0500 0508",
      "no name": "0500 0501",
      "zero byte": "0500 0501",
      "long name": "0500 0502",
      "port 0": "0500 0501",
      metadata: "0500 0502",
      mapped: "0500 0502",
      "other port": "0500 0502",
      allowed: "0500 0500",
    });
  });

  it("keeps nothing open after its end", async () => {
    expect(await attack("held")).toEqual({ beside: "HTTP/1.1 200 OK" });
    await expect.poll(async () => (await attacker.egress()).open).toEqual([]);
  });
});
