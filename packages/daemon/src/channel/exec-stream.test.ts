import { BOOT_ID, ScriptedRunner } from "@sandkasten/testkit";
import type { RunnerScript } from "@sandkasten/testkit";
import { FrameType, INITIAL_CREDIT_BYTES } from "@sandkasten/protocol";
import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import type { OutputChunk } from "../ports/channel.ts";
import { RunnerChannel } from "./runner-channel.ts";

const opened: RunnerChannel[] = [];
afterEach(() => {
  for (const channel of opened.splice(0)) channel.close();
});

function channelTo(runner: ScriptedRunner): RunnerChannel {
  const channel = new RunnerChannel({ connect: runner.connect, deadlines: { reattachMs: 2_000 } });
  opened.push(channel);
  return channel;
}

/** A runner that greets every connection before the script continues. */
function greeted(script: RunnerScript): Promise<ScriptedRunner> {
  return ScriptedRunner.listen((peer, number) => {
    peer.hello();
    return script(peer, number);
  });
}

function shell(text: string) {
  return { kind: "shell", text } as const;
}

async function textOf(chunks: AsyncIterable<OutputChunk>): Promise<string> {
  let text = "";
  for await (const chunk of chunks) text += Buffer.from(chunk.bytes).toString();
  return text;
}

describe("an exec stream", () => {
  it("sends the request and the command text, and returns output and end", async () => {
    let request: unknown;
    let body: unknown;
    await using runner = await greeted(async (peer) => {
      const { stream, message } = await peer.request("exec");
      request = message;
      body = (await peer.nextFrame())?.payload.toString();
      peer.started(stream, "e1");
      peer.output(stream, 0, "out");
      peer.output(stream, 3, "err", 2);
      peer.exited(stream, "e1", 7);
    });
    const exec = await channelTo(runner).exec(shell("run it"), {
      execId: "e1",
      cwd: "/w",
      env: { A: "b" },
      timeoutMs: 5,
    });
    const chunks = await Array.fromAsync(exec, ({ stream, offset, bytes }) => [
      stream,
      offset,
      Buffer.from(bytes).toString(),
    ]);
    expect(request).toEqual({
      op: "exec",
      exec_id: "e1",
      mode: "shell",
      cmd_bytes: 6,
      cwd: "/w",
      env: { A: "b" },
      timeout_ms: 5,
    });
    expect(body).toBe("run it");
    expect(chunks).toEqual([
      ["stdout", 0, "out"],
      ["stderr", 3, "err"],
    ]);
    expect(await exec.ended).toMatchObject({ execId: "e1", reason: "exited", exitCode: 7 });
  });

  it("gives credit only for consumed bytes, and acknowledges the rest after the end", async () => {
    const sent = Promise.withResolvers<void>();
    await using runner = await greeted(async (peer) => {
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
      for (let i = 0; i < 4; i++) peer.output(stream, i * 65_536, Buffer.alloc(65_536, i));
      peer.exited(stream, "e1");
      sent.resolve();
    });
    const channel = channelTo(runner);
    const exec = await channel.exec(shell("x"), { execId: "e1" });
    await sent.promise;
    expect(await exec.ended).toMatchObject({ reason: "exited" });
    const peer = runner.peers[0];
    if (peer === undefined) throw new Error("nobody connected");
    expect(peer.credits.get(1)).toBeUndefined();
    let seen = 0;
    for await (const chunk of exec) seen += chunk.bytes.byteLength;
    expect(seen).toBe(INITIAL_CREDIT_BYTES);
    await expect.poll(() => peer.credits.get(1)).toBe(INITIAL_CREDIT_BYTES);
  });

  it("leaves a chunk unchanged until the next one is requested, whatever arrives or is lost meanwhile", async () => {
    const looking = Promise.withResolvers<void>();
    await using runner = await greeted(async (peer, number) => {
      const { stream, message } = await peer.request();
      peer.started(stream, "e1");
      const portionBytes = INITIAL_CREDIT_BYTES / 4;
      for (let i = Number(message["offset"] ?? 0) / portionBytes; i < 4; i++)
        peer.output(stream, i * portionBytes, Buffer.alloc(portionBytes, i));
      if (number > 1) {
        peer.exited(stream, "e1");
        return;
      }
      await looking.promise;
      peer.socket.end();
    });
    const exec = await channelTo(runner).exec(shell("x"), { execId: "e1" });
    const seen: number[] = [];
    for await (const { bytes } of exec) {
      const before = Buffer.from(bytes);
      looking.resolve();
      await expect.poll(() => runner.peers.length).toBe(2);
      await setImmediate();
      expect(before.equals(bytes)).toBe(true);
      seen.push(before[0] ?? Number.NaN);
    }
    expect(seen).toEqual([0, 1, 2, 3]);
  });

  it("reports its end only after all output was delivered to its reader", async () => {
    const reading = Promise.withResolvers<void>();
    await using runner = await greeted(async (peer) => {
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
      peer.output(stream, 0, "x");
      await reading.promise;
      for (let i = 1; i < 5; i++) peer.output(stream, i, "x");
      peer.exited(stream, "e1");
    });
    const exec = await channelTo(runner).exec(shell("x"), { execId: "e1" });
    const order: string[] = [];
    void exec.ended.then(() => order.push("ended"));
    for await (const chunk of exec) {
      order.push(String(chunk.offset));
      reading.resolve();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await exec.ended;
    expect(order).toEqual(["0", "1", "2", "3", "4", "ended"]);
  });

  it("reattaches after a lost connection at the consumed offset, and repeats nothing", async () => {
    const offsets: unknown[] = [];
    await using runner = await greeted(async (peer, number) => {
      const { stream, message } = await peer.request();
      peer.started(stream, "e1");
      if (number === 1) {
        peer.output(stream, 0, "aaaa");
        peer.output(stream, 4, "bbbb");
        // The connection breaks in the middle of a frame.
        peer.socket.end(Buffer.from("0000ffff07", "hex"));
        return;
      }
      offsets.push([message["op"], message["offset"]]);
      const all = "aaaabbbbcccc";
      const offset = Number(message["offset"]);
      peer.output(stream, offset, all.slice(offset, offset + 6));
      peer.output(stream, offset + 6, all.slice(offset + 6));
      peer.exited(stream, "e1");
    });
    const exec = await channelTo(runner).exec(shell("x"), { execId: "e1" });
    const chunks: [number, string][] = [];
    for await (const chunk of exec) {
      chunks.push([chunk.offset, Buffer.from(chunk.bytes).toString()]);
      // Hold the first chunk until the connection was lost and restored.
      if (chunks.length === 1) await expect.poll(() => offsets.length).toBe(1);
    }
    expect(offsets).toEqual([["attach", 0]]);
    expect(chunks.map(([, text]) => text).join("")).toBe("aaaabbbbcccc");
    expect(chunks.every(([offset], i) => i === 0 || offset > (chunks[i - 1]?.[0] ?? 0))).toBe(true);
    expect(await exec.ended).toMatchObject({ reason: "exited", exitCode: 0 });
  });

  it("sends the exec again if the connection broke before the runner confirmed it", async () => {
    const ops: unknown[] = [];
    await using runner = await greeted(async (peer, number) => {
      const { stream, message } = await peer.request();
      ops.push(message["op"]);
      if (number === 1) {
        peer.socket.destroy();
        return;
      }
      peer.started(stream, "e1");
      peer.exited(stream, "e1");
    });
    const exec = await channelTo(runner).exec(shell("x"), { execId: "e1" });
    expect(await exec.ended).toMatchObject({ reason: "exited" });
    expect(ops).toEqual(["exec", "exec"]);
  });

  it.each([
    ["with time left", { timeoutMs: 60_000 }],
    ["without a timeout", {}],
  ])("reattaches to a runner that was frozen for a long time, %s", async (_, options) => {
    const thawed = Promise.withResolvers<void>();
    await using runner = await ScriptedRunner.listen(async (peer, number) => {
      if (number > 1) await thawed.promise;
      peer.hello();
      const { stream } = await peer.request();
      peer.started(stream, "e1");
      if (number > 1) peer.exited(stream, "e1");
    });
    const deadlines = { helloMs: 50, answerMs: 50, keepaliveMs: 50, reattachMs: 10 };
    const channel = new RunnerChannel({ connect: runner.connect, deadlines });
    const exec = await channel.exec(shell("x"), { execId: "e1", ...options });
    // The channel gives up the connection, and several attempts to restore it.
    await expect.poll(() => runner.peers.length).toBeGreaterThan(4);
    thawed.resolve();
    expect(await exec.ended).toMatchObject({ reason: "exited" });
    channel.close();
  });

  it("does not reattach to a frozen runner after the command's own deadline", async () => {
    await using runner = await ScriptedRunner.listen(async (peer, number) => {
      if (number > 1) return;
      peer.hello();
      peer.started((await peer.request()).stream, "e1");
    });
    const deadlines = {
      helloMs: 50,
      answerMs: 50,
      keepaliveMs: 50,
      reattachMs: 10,
      endGraceMs: 300,
    };
    const channel = new RunnerChannel({ connect: runner.connect, deadlines });
    const exec = await channel.exec(shell("x"), { execId: "e1", timeoutMs: 100 });
    expect(await exec.ended).toMatchObject({ reason: "unknown" });
    expect(runner.peers.length).toBeGreaterThan(1);
    channel.close();
  });

  it("ends as sandbox_gone if another runner answers instead", async () => {
    await using runner = await ScriptedRunner.listen(async (peer, number) => {
      peer.hello(number === 1 ? BOOT_ID : "f".repeat(32));
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
      peer.socket.destroy();
    });
    const exec = await channelTo(runner).exec(shell("x"), { execId: "e1" });
    expect(await exec.ended).toMatchObject({ reason: "sandbox_gone" });
    expect((await exec.ended).exitCode).toBeUndefined();
  });

  it("ends as sandbox_gone if nothing listens", async () => {
    await using runner = await greeted(async (peer) => {
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
      runner.stopListening();
      peer.output(stream, 0, "last words");
      peer.socket.end();
    });
    const exec = await channelTo(runner).exec(shell("x"), { execId: "e1" });
    expect(await textOf(exec)).toBe("last words");
    expect(await exec.ended).toMatchObject({ reason: "sandbox_gone", stdoutBytes: 10 });
  });

  it("rejects when the runner refuses the command", async () => {
    await using runner = await greeted(async (peer) => {
      const { stream } = await peer.request("exec");
      peer.refuse(stream, "no_shell", "there is no shell\u001b[2J here");
    });
    await expect(channelTo(runner).exec(shell("x"), { execId: "e1" })).rejects.toMatchObject({
      code: "NO_SHELL",
      message: "there is no shell\ufffd[2J here",
    });
  });

  it("cancels its stream when detached, and then ends as unknown", async () => {
    const cancelled = Promise.withResolvers<number | undefined>();
    await using runner = await greeted(async (peer) => {
      const { stream } = await peer.request("exec");
      await peer.nextFrame();
      peer.started(stream, "e1");
      cancelled.resolve((await peer.nextFrame())?.type);
      // Output in transit is tolerated, and so is the confirmation.
      peer.output(stream, 0, "late");
      peer.refuse(stream, "cancelled");
      peer.respond((await peer.request("ping")).stream, {
        uptime_ms: 1,
        rss_bytes: 1,
        shell: "sh",
        tracking: "cgroup",
      });
    });
    const channel = channelTo(runner);
    const exec = await channel.exec(shell("x"), { execId: "e1" });
    exec.detach();
    expect(await cancelled.promise).toBe(FrameType.cancel);
    expect(await exec.ended).toMatchObject({ reason: "unknown" });
    expect(await textOf(exec)).toBe("");
    await channel.ping();
    expect(runner.peers).toHaveLength(1);
  });

  it("stops waiting when its signal fires before the command has started", async () => {
    await using runner = await greeted(async (peer) => {
      await peer.request("exec");
    });
    const abort = new AbortController();
    const pending = channelTo(runner).exec(shell("x"), { execId: "e1" }, abort.signal);
    setTimeout(() => abort.abort(new Error("no longer wanted")), 20);
    await expect(pending).rejects.toMatchObject({
      code: "CANCELLED",
      cause: { message: "no longer wanted" },
    });
  });

  it("ends as unknown when the channel is closed", async () => {
    await using runner = await greeted(async (peer) => {
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
    });
    const channel = channelTo(runner);
    const exec = await channel.exec(shell("x"), { execId: "e1" });
    channel.close();
    expect(await exec.ended).toMatchObject({ reason: "unknown" });
    await expect(channel.ping()).rejects.toMatchObject({ code: "SANDBOX_UNREACHABLE" });
  });
});

describe("stdin", () => {
  it("is sent after the command text within the runner's credit", async () => {
    const received: Buffer[] = [];
    await using runner = await greeted(async (peer) => {
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
      for (
        let frame = await peer.nextFrame();
        frame?.type === FrameType.data;
        frame = await peer.nextFrame()
      ) {
        received.push(frame.payload);
        const credit = Buffer.alloc(13);
        credit.writeUInt32BE(4, 0);
        credit[4] = FrameType.credit;
        credit.writeUInt32BE(stream, 5);
        credit.writeUInt32BE(frame.payload.byteLength, 9);
        peer.send(credit);
      }
      peer.exited(stream, "e1");
    });
    const exec = await channelTo(runner).exec(shell("cat"), { execId: "e1", stdin: true });
    const input = Buffer.alloc(1_000_000, "stdin ");
    await exec.writeStdin(input);
    await exec.closeStdin();
    expect(await exec.ended).toMatchObject({ reason: "exited" });
    expect(Buffer.concat(received).equals(Buffer.concat([Buffer.from("cat"), input]))).toBe(true);
    await expect(exec.writeStdin(input)).rejects.toMatchObject({ code: "CONFLICT" });
  });

  it("is refused if it was not requested", async () => {
    await using runner = await greeted(async (peer) => {
      const { stream } = await peer.request("exec");
      peer.started(stream, "e1");
    });
    const exec = await channelTo(runner).exec(shell("cat"), { execId: "e1" });
    await expect(exec.writeStdin(Buffer.from("x"))).rejects.toMatchObject({ code: "CONFLICT" });
    exec.detach();
  });

  it("is not resumed after input was lost in transit, so no byte is lost or repeated unnoticed", async () => {
    const attaches: unknown[] = [];
    await using runner = await greeted(async (peer, number) => {
      const { stream, message } = await peer.request();
      peer.started(stream, "e1");
      if (number === 1) {
        await peer.nextFrame();
        await peer.nextFrame();
        peer.socket.destroy();
      } else attaches.push(message);
    });
    const exec = await channelTo(runner).exec(shell("cat"), { execId: "e1", stdin: true });
    await exec.writeStdin(Buffer.from("half a line"));
    await expect.poll(() => attaches.length).toBe(1);
    expect(attaches).toEqual([{ op: "attach", exec_id: "e1", offset: 0, until: "done" }]);
    await expect(exec.writeStdin(Buffer.from("\n"))).rejects.toMatchObject({
      code: "SANDBOX_UNREACHABLE",
    });
    exec.detach();
  });
});
