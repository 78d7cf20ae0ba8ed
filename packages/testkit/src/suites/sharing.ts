/** Ports, several channels, cancelling and closing. */
import { expect, it } from "vitest";
import type { FixtureOf } from "../channel-fixture.ts";
import { commandOf, newExecId, run, withCode } from "./run-command.ts";

const UNUSED_PORT = 40_003;

export function sharingSuite(fixture: FixtureOf): void {
  it("reports its state", async () => {
    const health = await fixture().channel.ping();
    expect(health.uptimeMs).toBeGreaterThanOrEqual(0);
    expect(health.rssBytes).toBeGreaterThan(0);
  });

  it("refuses a port on which nothing listens", async () => {
    await expect(fixture().channel.dial(UNUSED_PORT)).rejects.toMatchObject(
      withCode("PORT_REFUSED"),
    );
  });

  it("transfers bytes both ways to a port inside, and half-closes", async ({ skip }) => {
    const { channel, echoServer, hidesListeners = false } = fixture();
    if (echoServer === undefined) {
      skip("this sandbox has no program that listens on a port");
      return;
    }
    const port = 40_007;
    const execId = newExecId();
    const server = await channel.exec(echoServer(port), { execId });
    const connection = await untilListening(() => channel.dial(port));
    const listener = (await channel.listPorts()).find((one) => one.port === port);
    expect(listener?.address).toBe("127.0.0.1");
    // The kernel reports the process name, and may truncate it.
    if (hidesListeners) expect(listener).not.toHaveProperty("process");
    else expect(listener?.process).toMatch(/^(?:python|perl|echo-server)/);
    const sent = Buffer.alloc(1_000_000, "round trip ");
    const writing = (async () => {
      const writer = connection.writable.getWriter();
      for (let at = 0; at < sent.byteLength; at += 50_000)
        await writer.write(sent.subarray(at, at + 50_000));
      await writer.close();
    })();
    const received = Buffer.concat(await Array.fromAsync(connection.readable));
    await writing;
    expect(received.equals(sent)).toBe(true);
    await channel.signal(execId, 9, { tree: true });
    await server.ended;
  });

  it("does not start what was aborted before", async () => {
    const { channel } = fixture();
    const signal = AbortSignal.abort(new Error("not wanted"));
    const execId = newExecId();
    await expect(channel.exec(commandOf("true"), { execId }, signal)).rejects.toMatchObject(
      withCode("CANCELLED"),
    );
    expect((await channel.listExecs()).some((exec) => exec.execId === execId)).toBe(false);
    await expect(channel.watch(".", {}, signal)).rejects.toMatchObject(withCode("CANCELLED"));
    await expect(channel.dial(UNUSED_PORT, signal)).rejects.toMatchObject(withCode("CANCELLED"));
  });

  it("releases a command whose caller aborts, and the command continues", async () => {
    const { channel } = fixture();
    const abort = new AbortController();
    const execId = newExecId();
    const exec = await channel.exec(commandOf(["sleep", "60"]), { execId }, abort.signal);
    abort.abort();
    expect((await exec.ended).reason).toBe("unknown");
    expect((await channel.listExecs()).find((e) => e.execId === execId)?.state).toBe("running");
    await channel.signal(execId, 9);
  });

  it("shows the same sandbox through every channel", async () => {
    const { channel, reopen } = fixture();
    const other = await reopen();
    try {
      await run(channel, "export SEEN=by-both");
      expect((await run(other, "echo $SEEN")).stdout).toBe("by-both\n");
      const { execId } = await run(other, ["true"]);
      expect((await channel.listExecs()).some((exec) => exec.execId === execId)).toBe(true);
    } finally {
      other.close();
    }
  });

  it("can be closed while commands and reads are open; the commands continue", async () => {
    const { channel, reopen } = fixture();
    await channel.writeFile("open", Buffer.alloc(1_000_000));
    const other = await reopen();
    const execId = newExecId();
    const exec = await other.exec(commandOf(["sleep", "60"]), { execId });
    const reading = Array.fromAsync(exec);
    other.close();
    expect(await reading).toEqual([]);
    expect((await exec.ended).reason).toBe("unknown");
    await expect(other.ping()).rejects.toMatchObject(withCode("SANDBOX_UNREACHABLE"));
    expect((await channel.listExecs()).find((e) => e.execId === execId)?.state).toBe("running");
    await channel.signal(execId, 9);
    const again = await channel.attach(execId);
    expect((await again.ended).reason).toBe("killed");
  });
}

/** A server needs a moment to listen; the test's timeout limits the wait. */
async function untilListening<T>(dial: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await dial();
    } catch (error) {
      if ((error as { code?: string }).code !== "PORT_REFUSED") throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
