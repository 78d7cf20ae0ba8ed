/** Streams that a runner opens: what it can request, and what a hostile one cannot. */
import {
  encodeCreditFrame,
  encodeFrame,
  encodeJsonFrame,
  FIRST_RUNNER_STREAM_ID,
  FrameType,
  MAX_RUNNER_STREAMS,
  RUNNER_STREAM_CREDIT_BYTES,
  RUNNER_STREAM_MAX_CREDIT_BYTES,
} from "@sandkasten/protocol";
import type { Frame } from "@sandkasten/protocol";
import { ScriptedRunner } from "@sandkasten/testkit";
import type { RunnerPeer } from "@sandkasten/testkit";
import { afterEach, describe, expect, it } from "vitest";
import type { NetworkHandler, SandboxConnection, SandboxDestination } from "../ports/channel.ts";
import { RunnerChannel } from "./runner-channel.ts";
import { connectUnixSocket } from "./unix-socket.ts";

const FIRST = FIRST_RUNNER_STREAM_ID;
const TARGET = { op: "connect", host: "a.test", port: 443, via: "transparent" };

interface Opened {
  readonly peer: RunnerPeer;
  /** One for each connection so far. */
  readonly peers: readonly RunnerPeer[];
  readonly channel: RunnerChannel;
  readonly connections: [SandboxDestination, SandboxConnection][];
  readonly names: string[];
  /** Resolves once the handler was called for this many connections. */
  readonly asked: (count: number) => Promise<void>;
}

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** A channel whose network is open, and the runner at its other end. */
async function open(): Promise<Opened> {
  const peers: RunnerPeer[] = [];
  const runner = await ScriptedRunner.listen(async (peer) => {
    peer.hello();
    const { stream } = await peer.request("network");
    peer.event(stream, { event: "ready", mode: "proxy", proxy_port: 3128 });
    peers.push(peer);
  });
  const channel = new RunnerChannel({
    connect: (signal) => connectUnixSocket(runner.path, signal),
  });
  closers.push(() => channel.close());
  const connections: Opened["connections"] = [];
  const names: string[] = [];
  let wake = (): void => undefined;
  const handler: NetworkHandler = {
    resolve: (name) => {
      names.push(name);
      return name === "a.test" ? [80, 443] : undefined;
    },
    connect: (destination, connection) => {
      connections.push([destination, connection]);
      wake();
    },
  };
  const network = await channel.openNetwork(handler);
  expect(network.mode).toBe("proxy");
  const asked = async (count: number): Promise<void> => {
    while (connections.length < count)
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
  };
  return { peer: peers[0]!, peers, channel, connections, names, asked };
}

function request(stream: number, message: object): Buffer {
  return encodeJsonFrame(FrameType.request, stream, message);
}

function json({ payload }: Frame): unknown {
  return JSON.parse(payload.toString());
}

async function next(peer: RunnerPeer): Promise<Frame> {
  const frame = await peer.nextFrame();
  if (frame === undefined) throw new Error("the daemon closed the connection");
  return frame;
}

describe("names", () => {
  it("are answered with ports, or refused", async () => {
    const { peer, names } = await open();
    peer.send(request(FIRST, { op: "resolve", name: "a.test" }));
    const answer = await next(peer);
    expect([answer.type, answer.stream, json(answer)]).toEqual([
      FrameType.response,
      FIRST,
      { ports: [80, 443] },
    ]);
    peer.send(request(FIRST + 1, { op: "resolve", name: "b.test" }));
    const refusal = await next(peer);
    expect(refusal.type).toBe(FrameType.error);
    expect(json(refusal)).toMatchObject({ code: "denied" });
    expect(names).toEqual(["a.test", "b.test"]);
  });
});

describe("connections", () => {
  it("transfer bytes both ways, and each side ends separately", async () => {
    const { peer, connections, asked } = await open();
    peer.send(request(FIRST, TARGET));
    await asked(1);
    const [destination, connection] = connections[0]!;
    expect(destination).toEqual({ host: "a.test", port: 443, via: "transparent" });
    connection.accept();
    expect(json(await next(peer))).toEqual({ event: "connected" });
    peer.data(FIRST, "ping");
    peer.send(encodeFrame(FrameType.end, FIRST));
    const heard: Buffer[] = [];
    for await (const chunk of connection) {
      heard.push(chunk as Buffer);
      connection.write("pong");
    }
    expect(Buffer.concat(heard).toString()).toBe("ping");
    connection.end();
    const pong = await next(peer);
    expect([pong.type, pong.payload.toString()]).toEqual([FrameType.data, "pong"]);
    expect((await next(peer)).type).toBe(FrameType.end);
    expect((await next(peer)).type).toBe(FrameType.response);
  });

  it("tell the gateway when the program closes them, and the program when the server does", async () => {
    const { peer, connections, asked } = await open();
    peer.send(request(FIRST, TARGET), request(FIRST + 1, TARGET));
    await asked(2);
    const [[, first], [, second]] = connections as [
      Opened["connections"][0],
      Opened["connections"][0],
    ];
    first.accept();
    const broken = new Promise((resolve) => first.once("close", resolve));
    peer.send(encodeFrame(FrameType.cancel, FIRST));
    await broken;
    second.fail("refused", "nobody is there");
    const frames = [await next(peer), await next(peer)];
    expect(frames.map(({ stream, type }) => [stream, type])).toEqual([
      [FIRST, FrameType.event],
      [FIRST + 1, FrameType.error],
    ]);
    expect(json(frames[1]!)).toEqual({ code: "refused", message: "nobody is there" });
  });

  it("slow down a sender if the reader does not keep up", async () => {
    const { peer, connections, asked } = await open();
    peer.send(request(FIRST, TARGET));
    await asked(1);
    const [, connection] = connections[0]!;
    connection.accept();
    await next(peer);
    peer.data(FIRST, Buffer.alloc(RUNNER_STREAM_CREDIT_BYTES));
    // The answer to a later request proves that the bytes have arrived.
    peer.send(request(FIRST + 1, { op: "resolve", name: "a.test" }));
    await next(peer);
    expect(peer.credits.get(FIRST) ?? 0).toBeLessThan(RUNNER_STREAM_CREDIT_BYTES);
    connection.resume();
    peer.send(encodeFrame(FrameType.end, FIRST));
    await new Promise((resolve) => connection.once("end", resolve));
    expect(connection.destroyed).toBe(false);
  });

  it("are closed when the connection to the runner is lost, and work again on the next one", async () => {
    const { peer, peers, connections, asked } = await open();
    peer.send(request(FIRST, TARGET));
    await asked(1);
    const [, connection] = connections[0]!;
    const closed = new Promise((resolve) => connection.once("close", resolve));
    peer.socket.destroy();
    await closed;
    // The channel offers the network again automatically.
    await expect.poll(() => peers.length).toBe(2);
    peers[1]!.send(request(FIRST, TARGET));
    await asked(2);
  });
});

describe("a hostile runner", () => {
  it.each<[string, (peer: RunnerPeer) => void]>([
    [
      "sends more than it may",
      (peer) => peer.data(FIRST, Buffer.alloc(RUNNER_STREAM_CREDIT_BYTES + 1)),
    ],
    [
      "gives more credit than there is",
      (peer) => peer.send(encodeCreditFrame(FIRST, RUNNER_STREAM_MAX_CREDIT_BYTES)),
    ],
    ["sends an answer to its own request", (peer) => peer.respond(FIRST, {})],
    ["sends output on it", (peer) => peer.output(FIRST, 0, "x")],
    [
      "sends bytes after its end",
      (peer) => {
        peer.send(encodeFrame(FrameType.end, FIRST));
        peer.data(FIRST, "x");
      },
    ],
  ])("that %s loses only that stream", async (_, attack) => {
    const { peer, connections, asked } = await open();
    peer.send(request(FIRST, TARGET), request(FIRST + 1, TARGET));
    await asked(2);
    for (const [, connection] of connections) connection.accept();
    await next(peer);
    await next(peer);
    attack(peer);
    const end = await next(peer);
    expect([end.type, end.stream]).toEqual([FrameType.error, FIRST]);
    expect(connections[0]![1].destroyed).toBe(true);
    peer.data(FIRST + 1, "still here");
    const [chunk] = await connections[1]![1].take(1).toArray();
    expect(String(chunk)).toBe("still here");
  });

  it("that sends bytes before the gateway has connected loses that stream", async () => {
    const { peer, connections, asked } = await open();
    peer.send(request(FIRST, TARGET));
    await asked(1);
    peer.data(FIRST, "early");
    expect((await next(peer)).type).toBe(FrameType.error);
    expect(connections[0]![1].destroyed).toBe(true);
  });

  it.each<[string, object]>([
    ["an unknown operation", { op: "listen", port: 1 }],
    ["a port that is none", { ...TARGET, port: 0 }],
    ["a host with a NUL", { ...TARGET, host: "a.test\0.b.test" }],
    ["a host with a line feed", { ...TARGET, host: "a.test\r\nX: y" }],
    ["an endless host", { ...TARGET, host: "a".repeat(300) }],
    ["no host", { op: "connect", port: 443, via: "socks5" }],
  ])("that requests %s is refused, and continues", async (_, message) => {
    const { peer, connections, names } = await open();
    peer.send(request(FIRST, message));
    expect(json(await next(peer))).toMatchObject({ code: "invalid" });
    expect([connections, names]).toEqual([[], []]);
    peer.send(request(FIRST + 1, { op: "resolve", name: "a.test" }));
    expect((await next(peer)).type).toBe(FrameType.response);
  });

  it.each<[string, (peer: RunnerPeer) => void]>([
    ["opens a stream twice", (peer) => peer.send(request(FIRST, TARGET), request(FIRST, TARGET))],
    [
      "goes back to an older stream",
      (peer) => peer.send(request(FIRST + 5, TARGET), request(FIRST + 4, TARGET)),
    ],
    ["speaks on a stream that it never opened", (peer) => peer.data(FIRST + 9, "x")],
    ["opens one of the daemon's streams", (peer) => peer.send(request(77, TARGET))],
    [
      "breaks the protocol again and again",
      (peer) => {
        for (let stream = FIRST; stream < FIRST + 20; stream++) peer.send(request(stream, {}));
      },
    ],
  ])("that %s loses its connection", async (_, attack) => {
    const { peer } = await open();
    attack(peer);
    await peer.closed();
  });

  it("that opens more streams than allowed is refused the rest", async () => {
    const { peer, connections, asked } = await open();
    for (let index = 0; index <= MAX_RUNNER_STREAMS; index++)
      peer.send(request(FIRST + index, TARGET));
    const refusal = await next(peer);
    expect([refusal.stream, json(refusal)]).toMatchObject([
      FIRST + MAX_RUNNER_STREAMS,
      { code: "too_many" },
    ]);
    await asked(MAX_RUNNER_STREAMS);
    expect(connections).toHaveLength(MAX_RUNNER_STREAMS);
    connections[0]![1].fail("refused", "over");
    await next(peer);
    peer.send(request(FIRST + 5_000, TARGET));
    await asked(MAX_RUNNER_STREAMS + 1);
  });

  it("that sends requests endlessly is read more slowly, and keeps its connection", async () => {
    const { peer, names } = await open();
    const COUNT = 6_000;
    const frames = Array.from({ length: COUNT }, (_, index) =>
      request(FIRST + index, { op: "resolve", name: "b.test" }),
    );
    peer.send(...frames);
    for (let index = 0; index < COUNT; index++) await next(peer);
    expect(names).toHaveLength(COUNT);
    peer.send(request(FIRST + COUNT, { op: "resolve", name: "a.test" }));
    expect((await next(peer)).type).toBe(FrameType.response);
  });

  it("that gives credit but reads nothing makes the daemon buffer little", async () => {
    const { peer, connections, asked } = await open();
    const COUNT = 64;
    for (let index = 0; index < COUNT; index++) peer.send(request(FIRST + index, TARGET));
    await asked(COUNT);
    const more = RUNNER_STREAM_MAX_CREDIT_BYTES - RUNNER_STREAM_CREDIT_BYTES;
    for (let index = 0; index < COUNT; index++) peer.send(encodeCreditFrame(FIRST + index, more));
    peer.send(request(FIRST + COUNT, { op: "resolve", name: "a.test" }));
    expect((await next(peer)).type).toBe(FrameType.response);
    peer.socket.pause();
    let taken = 0;
    const portion = Buffer.alloc(65_536);
    for (const [, connection] of connections) {
      connection.accept();
      const push = (): void => {
        for (let index = 0; index < 16; index++)
          connection.write(portion, (error) => {
            if (error === null || error === undefined) taken += portion.byteLength;
          });
      };
      push();
    }
    let before;
    do {
      before = taken;
      await new Promise((resolve) => setTimeout(resolve, 50));
    } while (taken !== before);
    // 64 MiB have credit; only what the kernel buffers, and 4 MiB, leaves the connections.
    expect(taken).toBeGreaterThan(0);
    expect(taken).toBeLessThan(16 << 20);
  });

  it("is refused everything once the network is closed", async () => {
    const { peer, connections, asked, channel } = await open();
    peer.send(request(FIRST, TARGET));
    await asked(1);
    connections[0]![1].accept();
    await next(peer);
    channel.close();
    await new Promise((resolve) => connections[0]![1].once("close", resolve));
    await peer.closed();
  });
});
