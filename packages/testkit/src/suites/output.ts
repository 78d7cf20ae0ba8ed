/** How output is delivered: in order, complete, at the reader's pace. */
import { createHash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import type { FixtureOf } from "../channel-fixture.ts";
import { chunksOf, newExecId, run, textOf } from "./run-command.ts";

const MORE_THAN_ANY_WINDOW_BYTES = 3_000_000;

export function outputSuite(fixture: FixtureOf): void {
  it("keeps stdout and stderr separate, with offsets in the merged output", async () => {
    const { chunks, stdout, stderr, end } = await run(
      fixture().channel,
      "echo out; echo err >&2; echo more",
    );
    expect([stdout, stderr]).toEqual(["out\nmore\n", "err\n"]);
    let offset = 0;
    for (const chunk of chunks) {
      expect(chunk.offset).toBe(offset);
      offset += chunk.bytes.byteLength;
    }
    expect(end).toMatchObject({ stdoutBytes: 9, stderrBytes: 4, droppedBytes: 0 });
  });

  it("merges stderr into stdout in exact order on request", async () => {
    const { stdout, stderr } = await run(
      fixture().channel,
      "echo 1; echo 2 >&2; echo 3; echo 4 >&2",
      { merge: true },
    );
    expect([stdout, stderr]).toEqual(["1\n2\n3\n4\n", ""]);
  });

  it("does not change bytes that are not text", async () => {
    const { channel } = fixture();
    const bytes = Buffer.from(Array.from({ length: 512 }, (_, i) => i % 256));
    await channel.writeFile("binary", bytes);
    const { chunks } = await run(channel, "cat binary");
    expect(Buffer.concat(chunks.map((c) => c.bytes)).equals(bytes)).toBe(true);
  });

  it("delivers more than a window, byte for byte, to a slow reader", async () => {
    const { channel } = fixture();
    const bytes = randomBytes(MORE_THAN_ANY_WINDOW_BYTES);
    await channel.writeFile("large", bytes);
    const exec = await channel.exec({ kind: "shell", text: "cat large" }, { execId: newExecId() });
    const hash = createHash("sha256");
    let received = 0;
    for await (const chunk of exec) {
      expect(chunk.offset).toBe(received);
      received += chunk.bytes.byteLength;
      hash.update(chunk.bytes);
      await sleep(1);
    }
    expect(received).toBe(bytes.byteLength);
    expect(hash.digest("hex")).toBe(createHash("sha256").update(bytes).digest("hex"));
    expect(await exec.ended).toMatchObject({
      reason: "exited",
      exitCode: 0,
      stdoutBytes: bytes.byteLength,
    });
  });

  it("loses nothing without a reader", async () => {
    const { channel } = fixture();
    const bytes = randomBytes(MORE_THAN_ANY_WINDOW_BYTES);
    await channel.writeFile("unread", bytes);
    const exec = await channel.exec(
      { kind: "process", argv: ["cat", "unread"] },
      { execId: newExecId() },
    );
    await sleep(200);
    const chunks = await chunksOf(exec);
    expect(Buffer.concat(chunks.map((c) => c.bytes)).equals(bytes)).toBe(true);
  });

  it("reports the end to a caller that waits for it without reading", async () => {
    const exec = await fixture().channel.exec(
      { kind: "shell", text: "echo unread" },
      { execId: newExecId() },
    );
    expect(await exec.ended).toMatchObject({ reason: "exited", exitCode: 0 });
    expect(textOf(await chunksOf(exec))).toBe("unread\n");
  });

  it("continues at an offset for a reader that reconnects", async () => {
    const { channel } = fixture();
    const execId = newExecId();
    const first = await channel.exec({ kind: "shell", text: "printf abcdef" }, { execId });
    await first.ended;
    first.detach();
    const again = await channel.attach(execId, { offset: 2 });
    const chunks = await chunksOf(again);
    expect([textOf(chunks), chunks[0]?.offset]).toEqual(["cdef", 2]);
    expect(await again.ended).toMatchObject({ reason: "exited", exitCode: 0 });
  });

  it("lets a command continue after its reader has left", async () => {
    const { channel } = fixture();
    const execId = newExecId();
    const exec = await channel.exec({ kind: "process", argv: ["sleep", "0.3"] }, { execId });
    exec.detach();
    expect(await Array.fromAsync(exec)).toEqual([]);
    expect((await exec.ended).reason).toBe("unknown");
    const again = await channel.attach(execId);
    expect(await again.ended).toMatchObject({ reason: "exited", exitCode: 0 });
  });

  it("can be left in the middle and continued", async () => {
    const { channel } = fixture();
    await channel.writeFile("two-parts", randomBytes(200_000));
    const exec = await channel.exec(
      { kind: "shell", text: "cat two-parts" },
      { execId: newExecId() },
    );
    let received = 0;
    for await (const chunk of exec) {
      received += chunk.bytes.byteLength;
      break;
    }
    for await (const chunk of exec) {
      expect(chunk.offset).toBe(received);
      received += chunk.bytes.byteLength;
    }
    expect(received).toBe(200_000);
  });
}
