/** A runner that code has taken over: whatever it sends, failures are typed, memory is bounded, and the next connection works. */
import {
  encodeCreditFrame,
  encodeFrame,
  encodeFrameHeader,
  encodeJsonFrame,
  FrameType,
  INITIAL_CREDIT_BYTES,
} from "@sandkasten/protocol";
import { execEndMessage, ScriptedRunner } from "@sandkasten/testkit";
import type { RunnerPeer } from "@sandkasten/testkit";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { ChannelDeadlines } from "./channel-options.ts";
import { EVENT_RATE } from "./request-rate.ts";
import { RunnerChannel } from "./runner-channel.ts";
import { connectUnixSocket } from "./unix-socket.ts";

const PONG = { uptime_ms: 1, rss_bytes: 1, shell: "sh", tracking: "cgroup" };
const DEADLINES: ChannelDeadlines = {
  helloMs: 300,
  answerMs: 300,
  slowAnswerMs: 300,
  keepaliveMs: 200,
  reattachMs: 300,
  frozenMs: 300,
  endGraceMs: 100,
};
/** Far below the cost of a successful attack, far above the noise of a garbage-collected heap. */
const MEMORY_SLACK_BYTES = 128 * 1024 * 1024;

const opened: RunnerChannel[] = [];
afterEach(() => {
  for (const channel of opened.splice(0)) channel.close();
});

function channelTo(
  runner: ScriptedRunner,
  deadlines: Partial<ChannelDeadlines> = {},
): RunnerChannel {
  const channel = new RunnerChannel({
    connect: (signal) => connectUnixSocket(runner.path, signal),
    deadlines: { ...DEADLINES, ...deadlines },
  });
  opened.push(channel);
  return channel;
}

/** Hostile on the first connection; honest about ping on later ones and on the rest of the first. */
function hostileOnce(attack: (peer: RunnerPeer) => Promise<void> | void): Promise<ScriptedRunner> {
  return ScriptedRunner.listen(async (peer, number) => {
    if (number === 1) await attack(peer);
    else peer.hello();
    for (;;) {
      const frame = await peer.nextFrame();
      if (frame === undefined) return;
      if (frame.type !== FrameType.request) continue;
      const message = JSON.parse(frame.payload.toString()) as { op: string };
      if (message.op === "ping") peer.respond(frame.stream, PONG);
      else peer.refuse(frame.stream, "not_found");
    }
  });
}

async function expectNextConnectionWorks(
  runner: ScriptedRunner,
  channel: RunnerChannel,
): Promise<void> {
  expect(await channel.ping()).toMatchObject({ shell: "sh" });
  expect(runner.peers.length).toBeGreaterThan(1);
}

function unreachable(reason: string): unknown {
  return expect.objectContaining({
    code: "SANDBOX_UNREACHABLE",
    details: expect.objectContaining({ reason }) as unknown,
  });
}

describe("hostile greetings", () => {
  it.each<[string, string, (peer: RunnerPeer) => void]>([
    ["is not a HELLO", "protocol", (peer) => peer.respond(1, {})],
    [
      "is on another stream",
      "protocol",
      (peer) =>
        peer.send(
          encodeJsonFrame(FrameType.hello, 1, {
            protocol: 1,
            runner: "x",
            boot_id: "0".repeat(32),
          }),
        ),
    ],
    [
      "speaks another protocol",
      "protocol",
      (peer) =>
        peer.send(
          encodeJsonFrame(FrameType.hello, 0, {
            protocol: 99,
            runner: "x",
            boot_id: "0".repeat(32),
          }),
        ),
    ],
    ["has a boot id that is none", "protocol", (peer) => peer.hello("../../../etc/passwd")],
    ["announces 2 GiB", "protocol", (peer) => peer.send(Buffer.from("800000000100000000", "hex"))],
    ["is a web server's", "protocol", (peer) => peer.send(Buffer.from("HTTP/1.1 200 OK\r\n\r\n"))],
    ["never comes", "unresponsive", () => undefined],
    ["is cut", "lost", (peer) => peer.socket.end(Buffer.from("0000", "hex"))],
    ["is a reset", "lost", (peer) => void peer.socket.destroy()],
  ])("fail the request if the greeting %s", async (_, reason, attack) => {
    await using runner = await hostileOnce(attack);
    const channel = channelTo(runner);
    await expect(channel.ping()).rejects.toEqual(unreachable(reason));
    await expectNextConnectionWorks(runner, channel);
  });

  it("of a paused sandbox hold nothing up once the channel is closed", async () => {
    await using runner = await hostileOnce(() => undefined);
    const channel = new RunnerChannel({
      connect: (signal) => connectUnixSocket(runner.path, signal),
      deadlines: DEADLINES,
      silenceExpected: () => true,
    });
    const request = channel.ping();
    request.catch(() => undefined);
    await vi.waitUntil(() => runner.peers.length > 0);
    channel.close();
    await expect(request).rejects.toMatchObject({ code: "SANDBOX_UNREACHABLE" });
  });
});

/** Attacks on a request for the metadata of a file. */
const attacks: [string, string, (peer: RunnerPeer, stream: number) => Promise<void> | void][] = [
  [
    "a length of 2^31",
    "protocol",
    (peer, stream) => peer.send(Buffer.from("8000000003", "hex"), streamId(stream)),
  ],
  [
    "an unknown frame type",
    "protocol",
    (peer, stream) => peer.send(Buffer.from("0000000063", "hex"), streamId(stream)),
  ],
  [
    "JSON that is not JSON",
    "protocol",
    (peer, stream) => peer.send(encodeFrame(FrameType.response, stream, Buffer.from("{{{{"))),
  ],
  [
    "JSON nested half a million deep",
    "protocol",
    (peer, stream) =>
      peer.send(
        encodeFrame(
          FrameType.response,
          stream,
          Buffer.from(`{"path":${"[".repeat(500_000)}${"]".repeat(500_000)}}`),
        ),
      ),
  ],
  [
    "an answer of another form",
    "protocol",
    (peer, stream) => peer.respond(stream, { path: 1, type: "device" }),
  ],
  [
    "an answer for a stream never opened",
    "protocol",
    (peer, stream) => peer.respond(stream + 1, {}),
  ],
  ["an answer on stream 0", "protocol", (peer) => peer.respond(0, {})],
  ["an unknown error code", "protocol", (peer, stream) => peer.refuse(stream, "SESSION_NOT_FOUND")],
  ["OUTPUT on a stream that has none", "protocol", (peer, stream) => peer.output(stream, 0, "x")],
  ["DATA on a stream that has none", "protocol", (peer, stream) => peer.data(stream, "x")],
  [
    "an EVENT on a stream that has none",
    "protocol",
    (peer, stream) => peer.event(stream, { event: "started" }),
  ],
  [
    "END on a stream that has none",
    "protocol",
    (peer, stream) => peer.send(encodeFrame(FrameType.end, stream)),
  ],
  [
    "a REQUEST from the runner",
    "protocol",
    (peer, stream) => peer.send(encodeJsonFrame(FrameType.request, stream, { op: "ping" })),
  ],
  [
    "a CANCEL from the runner",
    "protocol",
    (peer, stream) => peer.send(encodeFrame(FrameType.cancel, stream)),
  ],
  ["a second HELLO", "protocol", (peer) => peer.hello()],
  [
    "credit beyond what was sent",
    "protocol",
    (peer, stream) => peer.send(encodeCreditFrame(stream, 1)),
  ],
  [
    "credit for a stream never opened",
    "protocol",
    (peer, stream) => peer.send(encodeCreditFrame(stream + 5, 1)),
  ],
  [
    "a close in the middle of a frame",
    "lost",
    (peer, stream) =>
      void peer.socket.end(encodeJsonFrame(FrameType.response, stream, {}).subarray(0, 10)),
  ],
  ["a half-close", "lost", (peer) => void peer.socket.end()],
  ["a reset", "lost", (peer) => void peer.socket.resetAndDestroy()],
  ["silence", "deadline", () => undefined],
];

function streamId(stream: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(stream);
  return bytes;
}

describe("hostile answers", () => {
  it.each(attacks)("to a file request: %s", async (_, reason, attack) => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      await attack(peer, (await peer.request("stat")).stream);
    });
    const channel = channelTo(runner);
    await expect(channel.stat("/x")).rejects.toEqual(unreachable(reason));
    expect(await channel.ping()).toMatchObject({ shell: "sh" });
  });

  it.each(attacks.filter(([name, reason]) => reason === "protocol" && !name.startsWith("OUTPUT")))(
    "to a command, which then ends as unknown: %s",
    async (_name, _reason, attack) => {
      await using runner = await hostileOnce(async (peer) => {
        peer.hello();
        const { stream } = await peer.request("exec");
        peer.started(stream, "e1");
        peer.output(stream, 0, "partial");
        await attack(peer, stream);
      });
      const channel = channelTo(runner);
      const exec = await channel.exec({ kind: "shell", text: "" }, { execId: "e1" });
      const chunks = await Array.fromAsync(exec, (c) => Buffer.from(c.bytes).toString());
      expect(chunks.join("")).toBe("partial");
      const end = await exec.ended;
      expect(end.reason).toBe("unknown");
      expect(end.exitCode).toBeUndefined();
      expect(await channel.ping()).toMatchObject({ shell: "sh" });
    },
  );

  it.each<[string, (peer: RunnerPeer, stream: number) => void]>([
    ["output before it has started", (peer, stream) => peer.output(stream, 0, "x")],
    ["an exit before it has started", (peer, stream) => peer.exited(stream, "e1")],
    ["the start of another command", (peer, stream) => peer.started(stream, "e2")],
    [
      "two starts",
      (peer, stream) => {
        peer.started(stream, "e1");
        peer.started(stream, "e1");
      },
    ],
    [
      "the end of another command",
      (peer, stream) => {
        peer.started(stream, "e1");
        peer.exited(stream, "e2");
      },
    ],
    [
      "an end that only we may find",
      (peer, stream) => {
        peer.started(stream, "e1");
        peer.respond(stream, { ...execEndMessage("e1"), end_reason: "sandbox_gone" });
      },
    ],
    [
      "offsets going backwards",
      (peer, stream) => {
        peer.started(stream, "e1");
        peer.output(stream, 100, "x");
        peer.output(stream, 50, "x");
      },
    ],
    [
      "sequence numbers going backwards",
      (peer, stream) => {
        peer.started(stream, "e1");
        peer.output(stream, 0, "x", 1, 9);
        peer.output(stream, 1, "x", 1, 8);
      },
    ],
    [
      "descriptor 3",
      (peer, stream) => {
        peer.started(stream, "e1");
        peer.output(stream, 0, "x", 3 as 1);
      },
    ],
    [
      "more output than its credit",
      (peer, stream) => {
        peer.started(stream, "e1");
        peer.output(stream, 0, Buffer.alloc(INITIAL_CREDIT_BYTES));
        peer.output(stream, INITIAL_CREDIT_BYTES, "x");
      },
    ],
    [
      "an error in the middle",
      (peer, stream) => {
        peer.started(stream, "e1");
        peer.refuse(stream, "io");
      },
    ],
  ])("to a command: %s", async (_, attack) => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("exec");
      attack(peer, stream);
    });
    const channel = channelTo(runner);
    const exec = await channel.exec({ kind: "shell", text: "" }, { execId: "e1" });
    const end = await exec.ended;
    expect(end.reason).toBe("unknown");
    expect(end.exitCode).toBeUndefined();
    expect(await channel.ping()).toMatchObject({ shell: "sh" });
  });

  it.each<[string, (peer: RunnerPeer, stream: number) => void]>([
    ["too much credit", (peer, stream) => peer.send(encodeCreditFrame(stream, 1))],
    ["two starts", (peer, stream) => peer.started(stream, "e1")],
    ["a malformed end", (peer, stream) => peer.respond(stream, { exec_id: "e1", exit_code: -1 })],
    ["the end of another", (peer, stream) => peer.exited(stream, "e2")],
  ])("with %s on one stream do not affect the others", async (_, breach) => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const bad = await peer.request("exec");
      peer.started(bad.stream, "e1");
      const good = await peer.request("exec");
      peer.started(good.stream, "e2");
      breach(peer, bad.stream);
      peer.output(good.stream, 0, "untouched");
      peer.exited(good.stream, "e2");
    });
    const channel = channelTo(runner);
    const bad = await channel.exec({ kind: "shell", text: "" }, { execId: "e1" });
    const good = await channel.exec({ kind: "shell", text: "" }, { execId: "e2" });
    const chunks = await Array.fromAsync(good, (c) => Buffer.from(c.bytes).toString());
    expect(chunks).toEqual(["untouched"]);
    expect(await good.ended).toMatchObject({ reason: "exited", exitCode: 0 });
    expect(await bad.ended).toMatchObject({ reason: "unknown" });
    expect(runner.peers).toHaveLength(1);
    expect(runner.peers[0]?.ended).toBe(false);
  });

  it("with repeated violations close the connection", async () => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
      for (let i = 0; i < 100; i++) peer.send(encodeCreditFrame(stream, 1));
    });
    const channel = channelTo(runner);
    const exec = await channel.exec({ kind: "shell", text: "" }, { execId: "e1" });
    expect(await exec.ended).toMatchObject({ reason: "unknown" });
    await expect.poll(() => runner.peers[0]?.ended).toBe(true);
    await expectNextConnectionWorks(runner, channel);
  });

  it("a second RESPONSE fails the connection but not the delivered answer", async () => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("ping");
      peer.respond(stream, PONG);
      peer.respond(stream, PONG);
    });
    const channel = channelTo(runner);
    expect(await channel.ping()).toMatchObject({ shell: "sh" });
    await expect.poll(() => runner.peers[0]?.ended).toBe(true);
    await expectNextConnectionWorks(runner, channel);
  });

  it("a read that announces another size than it sends fails its body", async () => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("read");
      peer.event(stream, { event: "file", size: 100, mode: 0o644, mtime_ms: 0, version: "v" });
      peer.data(stream, "short");
      peer.respond(stream, { bytes: 100 });
    });
    const channel = channelTo(runner);
    const file = await channel.readFile("/x");
    await expect(Array.fromAsync(file.body)).rejects.toEqual(unreachable("protocol"));
    expect(await channel.ping()).toMatchObject({ shell: "sh" });
  });

  it("a runner that does not report a file's real path is asked for it, and a file without one has none", async () => {
    const file = { event: "file", size: 1, mode: 0o644, mtime_ms: 0, version: "v" };
    const requests: string[] = [];
    const read = async (event: object): Promise<unknown> => {
      await using runner = await hostileOnce(async (peer) => {
        peer.hello();
        const { stream } = await peer.request("read");
        peer.event(stream, event);
        const second = await peer.request("realpath");
        requests.push("realpath");
        peer.respond(second.stream, { path: "/y" });
      });
      const { realPath } = await channelTo(runner).readFile("/x", { realPath: true });
      return realPath;
    };
    expect(await read({ ...file, real_path: { path: "/z" } })).toEqual({ path: "/z" });
    await expect(read({ ...file, real_path: null })).rejects.toMatchObject({ code: "UNSUPPORTED" });
    expect(requests).toEqual([]);
    expect(await read(file)).toEqual({ path: "/y" });
  });

  it("a truncated body is an error, never a shorter file", async () => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("read");
      peer.event(stream, { event: "file", size: 100, mode: 0o644, mtime_ms: 0, version: "v" });
      peer.data(stream, "short");
      peer.socket.end();
    });
    const channel = channelTo(runner);
    const file = await channel.readFile("/x");
    await expect(Array.fromAsync(file.body)).rejects.toEqual(unreachable("lost"));
  });

  it("more bytes than the requested range fail the read", async () => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("read");
      peer.event(stream, { event: "file", size: 100, mode: 0o644, mtime_ms: 0, version: "v" });
      peer.data(stream, "123456");
    });
    const file = await channelTo(runner).readFile("/x", { length: 5 });
    await expect(Array.fromAsync(file.body)).rejects.toEqual(unreachable("protocol"));
  });
});

describe("a runner that delays", () => {
  it("sends a frame byte by byte and still misses the deadline", async () => {
    const timers: NodeJS.Timeout[] = [];
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("stat");
      peer.send(encodeFrameHeader(FrameType.response, stream, 1_000_000));
      timers.push(setInterval(() => peer.send(Buffer.from(" ")), 10));
    });
    const channel = channelTo(runner);
    try {
      await expect(channel.stat("/x")).rejects.toEqual(unreachable("deadline"));
    } finally {
      for (const timer of timers) clearInterval(timer);
    }
  });

  it("gives credit for no bytes repeatedly, which is a violation", async () => {
    const timers: NodeJS.Timeout[] = [];
    const nothing = encodeFrameHeader(FrameType.credit, 0, 4);
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      nothing.writeUInt32BE((await peer.request("stat")).stream, 5);
      timers.push(setInterval(() => peer.send(nothing, Buffer.alloc(4)), 10));
    });
    try {
      await expect(channelTo(runner).stat("/x")).rejects.toEqual(unreachable("protocol"));
    } finally {
      for (const timer of timers) clearInterval(timer);
    }
  });

  it("freezes during a command, which ends as unknown once keepalives are unanswered", async () => {
    await using runner = await ScriptedRunner.listen(async (peer, number) => {
      if (number > 1) return;
      peer.hello();
      peer.started((await peer.request("exec")).stream, "e1");
    });
    const exec = await channelTo(runner).exec({ kind: "shell", text: "" }, { execId: "e1" });
    expect(await exec.ended).toMatchObject({ reason: "unknown" });
  });

  it("freezes on purpose while the sandbox is paused, which is not a violation", async () => {
    let paused = true;
    const resumed = Promise.withResolvers<void>();
    await using runner = await ScriptedRunner.listen(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
      await resumed.promise;
      peer.exited(stream, "e1");
    });
    const channel = new RunnerChannel({
      connect: runner.connect,
      deadlines: { ...DEADLINES, keepaliveMs: 20, answerMs: 20 },
      silenceExpected: () => paused,
    });
    opened.push(channel);
    const exec = await channel.exec({ kind: "shell", text: "" }, { execId: "e1" });
    await new Promise((resolve) => setTimeout(resolve, 200));
    resumed.resolve();
    expect(await exec.ended).toMatchObject({ reason: "exited" });
    paused = false;
    expect(runner.peers).toHaveLength(1);
  });

  it("answers pings but never ends a command after its timeout", async () => {
    await using runner = await ScriptedRunner.listen(async (peer) => {
      peer.hello();
      peer.started((await peer.request("exec")).stream, "e1");
      for (;;) peer.respond((await peer.request("ping")).stream, PONG);
    });
    const exec = await channelTo(runner).exec(
      { kind: "shell", text: "" },
      { execId: "e1", timeoutMs: 50 },
    );
    expect(await exec.ended).toMatchObject({ reason: "unknown" });
  });

  it("never confirms that requests were cancelled, and loses the connection", async () => {
    const abort = new AbortController();
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      for (let i = 0; i < 600; i++) await peer.request("exec");
      abort.abort();
      await peer.closed();
    });
    const channel = channelTo(runner, { keepaliveMs: 60_000 });
    const execs = Array.from({ length: 600 }, (_, i) =>
      channel.exec({ kind: "shell", text: "" }, { execId: `e${String(i)}` }, abort.signal),
    );
    for (const result of await Promise.allSettled(execs)) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "CANCELLED" } });
    }
    await expectNextConnectionWorks(runner, channel);
  });

  it("never confirms that a write was cancelled, and the writer gets the error", async () => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      await peer.request("write");
    });
    const channel = channelTo(runner);
    await expect(channel.writeFile("file", brokenSource())).rejects.toThrow("the source broke");
    expect(await channel.ping()).toMatchObject({ shell: "sh" });
  });
});

describe("a write whose source fails", () => {
  it("fails only after the runner has undone it", async () => {
    const order: string[] = [];
    await using runner = await ScriptedRunner.listen(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("write");
      let frame = await peer.nextFrame();
      while (frame !== undefined && frame.type !== FrameType.cancel) frame = await peer.nextFrame();
      await new Promise((resolve) => setTimeout(resolve, 50));
      order.push("undone");
      peer.refuse(stream, "cancelled");
      await peer.closed();
    });
    const write = channelTo(runner, { keepaliveMs: 60_000 }).writeFile("file", brokenSource());
    await expect(write.finally(() => order.push("told"))).rejects.toThrow("the source broke");
    expect(order).toEqual(["undone", "told"]);
  });
});

async function* brokenSource(): AsyncGenerator<Uint8Array> {
  yield Promise.resolve(Buffer.from("half"));
  throw new Error("the source broke");
}

describe("a runner that floods", () => {
  it("with a line of 100 MB is stopped at its credit, and memory stays bounded", async () => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
      const frame = encodeFrameHeader(FrameType.output, stream, 17 + 65_536);
      const payload = Buffer.alloc(17 + 65_536, "A");
      payload.fill(0, 0, 17);
      payload[0] = 1;
      for (let i = 0; i < 1600 && !peer.socket.destroyed; i++) {
        payload.writeUInt32BE(i * 65_536, 13);
        peer.send(frame, payload);
        if (peer.socket.writableNeedDrain)
          await Promise.race([
            new Promise((r) => peer.socket.once("drain", r)),
            new Promise((r) => peer.socket.once("close", r)),
          ]);
      }
    });
    const channel = channelTo(runner);
    const before = process.memoryUsage();
    const exec = await channel.exec({ kind: "shell", text: "" }, { execId: "e1" });
    expect(await exec.ended).toMatchObject({ reason: "unknown" });
    const after = process.memoryUsage();
    expect(after.heapUsed + after.external - before.heapUsed - before.external).toBeLessThan(
      MEMORY_SLACK_BYTES,
    );
    await expect.poll(() => runner.peers[0]?.ended).toBe(true);
    await expectNextConnectionWorks(runner, channel);
  });

  it.each([
    ["many", 20_000, 0],
    ["long", 1_000, 60_000],
  ])(
    "with %s changes of files gets them combined into one overflow",
    async (_name, count, length) => {
      const flooded = Promise.withResolvers<void>();
      await using runner = await hostileOnce(async (peer) => {
        peer.hello();
        const { stream } = await peer.request("watch");
        peer.event(stream, { event: "ready" });
        for (let i = 0; i < count; i++)
          peer.event(stream, {
            event: "change",
            kind: "modify",
            path: `/w/${"x".repeat(length)}${String(i)}`,
          });
        flooded.resolve();
        peer.respond((await peer.request("ping")).stream, PONG);
      });
      // The whole flood is read before the answer.
      const channel = channelTo(runner, { answerMs: 20_000 });
      const changes = await channel.watch("/w");
      await flooded.promise;
      await channel.ping();
      const waited: { readonly kind: string; readonly path: string }[] = [];
      for await (const change of changes) {
        waited.push(change);
        if (change.kind === "overflow") break;
      }
      expect(waited.length).toBeLessThan(5_000);
      const bytes = waited.reduce((sum, { path }) => sum + path.length, 0);
      expect(bytes).toBeLessThan(1_200_000);
      expect(waited.at(-1)?.kind).toBe("overflow");
    },
  );

  it("with events is read more slowly, so others are not delayed", async () => {
    const more = Promise.withResolvers<void>();
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("watch");
      peer.event(stream, { event: "ready" });
      const change = { event: "change", kind: "modify", path: "/w" };
      const frame = encodeJsonFrame(FrameType.event, stream, change);
      peer.send(Buffer.concat(new Array<Buffer>(EVENT_RATE.burst - 1).fill(frame)));
      peer.respond((await peer.request("ping")).stream, PONG);
      await more.promise;
      peer.send(frame, frame);
    });
    let pauses = 0;
    const channel = new RunnerChannel({
      connect: async (signal) => {
        const socket = await connectUnixSocket(runner.path, signal);
        const pause = socket.pause.bind(socket);
        socket.pause = () => {
          pauses += 1;
          return pause();
        };
        return socket;
      },
    });
    opened.push(channel);
    // No time passes in which more would be allowed.
    const now = vi.spyOn(performance, "now").mockReturnValue(performance.now());
    try {
      await channel.watch("/w");
      await channel.ping();
      expect(pauses).toBe(0);
      more.resolve();
      await expect.poll(() => pauses).toBeGreaterThan(0);
    } finally {
      now.mockRestore();
    }
  });

  it("with an event that is not a change ends only the watch", async () => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("watch");
      peer.event(stream, { event: "ready" });
      peer.event(stream, { event: "change", kind: "modify", path: "/w/1" });
      peer.event(stream, { event: "change", kind: "explode", path: "/w/2" });
      peer.respond((await peer.request("ping")).stream, PONG);
    });
    const channel = channelTo(runner);
    const changes = await channel.watch("/w");
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { path } of changes) seen.push(path);
    })();
    await expect(reading).rejects.toEqual(unreachable("protocol"));
    expect(seen).toEqual(["/w/1"]);
    expect(await channel.ping()).toMatchObject({ shell: "sh" });
    expect(runner.peers).toHaveLength(1);
  });

  it("with output of no bytes uses no memory", async () => {
    await using runner = await hostileOnce(async (peer) => {
      peer.hello();
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
      const empty = encodeFrameHeader(FrameType.output, stream, 17);
      const head = Buffer.alloc(17);
      head[0] = 1;
      const many = Buffer.concat(new Array<Buffer[]>(20_000).fill([empty, head]).flat());
      for (let i = 0; i < 10; i++) peer.send(many);
      peer.exited(stream, "e1");
    });
    const exec = await channelTo(runner).exec({ kind: "shell", text: "" }, { execId: "e1" });
    expect(await Array.fromAsync(exec)).toEqual([]);
    expect(await exec.ended).toMatchObject({ reason: "exited" });
  });
});
