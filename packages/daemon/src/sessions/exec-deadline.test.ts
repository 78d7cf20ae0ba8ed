import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Backend } from "../ports/backend.ts";
import type { Channel, ExecStream, OutputChunk } from "../ports/channel.ts";
import { ExecDeadline } from "./exec-deadline.ts";
import { ALICE, CoreFixture, overriding } from "./testing/core-fixture.ts";

const TIMES = { lookMs: 5, silenceMs: 40, trickleMs: 150 };

let fixture: CoreFixture;
let id: string;
beforeEach(async () => {
  fixture = await CoreFixture.start();
  id = (await fixture.core.sessions.create(ALICE, {})).session.id;
});
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

/** A hostile sandbox: it mistreats the first command that it gets. */
async function captured(answer: (stream: ExecStream) => Promise<ExecStream>): Promise<void> {
  let isFirst = true;
  const wrap = (backend: Backend): Backend =>
    overriding(backend, {
      open: async (sandbox) => {
        const inner = await backend.open(sandbox);
        const exec: Channel["exec"] = async (...args) => {
          const stream = await inner.exec(...args);
          if (!isFirst) return stream;
          isFirst = false;
          return await answer(stream);
        };
        return overriding(inner, { exec });
      },
    });
  await fixture.restart("keep", { wrap, settings: { deadlineTimes: TIMES } });
}

async function expectGivenUp(): Promise<void> {
  const { execs } = fixture.core;
  const command = { kind: "shell", text: "true" } as const;
  const stuck = await execs.start(ALICE, id, { command, timeoutMs: 20 });
  const next = await execs.start(ALICE, id, { command });
  await stuck.wait().catch(() => undefined);
  expect(stuck.row).toMatchObject({
    status: "done",
    endReason: "unknown",
  });
  expect(await next.wait()).toMatchObject({ exitCode: 0 });
}

/** A stream that never ends, with this output. */
function endless(stream: ExecStream, output: () => AsyncGenerator<OutputChunk>): ExecStream {
  const left = Promise.withResolvers<never>();
  const ended = Promise.withResolvers<Awaited<ExecStream["ended"]>>();
  const detach = (): void => {
    left.reject(new Error("left"));
    void stream.ended.then((end) => ended.resolve({ ...end, reason: "unknown" }));
  };
  async function* chunks(): AsyncGenerator<OutputChunk> {
    const source = output();
    for (;;) {
      const next = await Promise.race([source.next(), left.promise]).catch(() => undefined);
      if (next?.value === undefined) return;
      yield next.value as OutputChunk;
    }
  }
  return {
    execId: stream.execId,
    ended: ended.promise,
    writeStdin: (bytes) => stream.writeStdin(bytes),
    closeStdin: () => stream.closeStdin(),
    detach,
    [Symbol.asyncIterator]: chunks,
  };
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function* print(bytes: number, everyMs: number): AsyncGenerator<OutputChunk> {
  for (let seq = 0; ; seq++) {
    await pause(everyMs);
    yield { stream: "stdout", seq, offset: seq * bytes, bytes: Buffer.alloc(bytes, "x") };
  }
}

// oxlint-disable-next-line require-yield
async function* silence(): AsyncGenerator<OutputChunk> {
  await new Promise(() => undefined);
}

describe("the deadline of a command", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("is suspended while the command waits for the daemon or is frozen", async () => {
    let isHeldUp = true;
    const passed = vi.fn<() => void>();
    using deadlines = new DisposableStack();
    const deadline = new ExecDeadline(1_000, () => isHeldUp, passed);
    deadlines.defer(() => deadline.stop());
    await vi.advanceTimersByTimeAsync(600_000);
    expect(passed).not.toHaveBeenCalled();
    isHeldUp = false;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(passed).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(passed).toHaveBeenCalledOnce();
  });

  it("is exceeded by more late output than a sandbox can hold", async () => {
    const passed = vi.fn<() => void>();
    using deadlines = new DisposableStack();
    const deadline = new ExecDeadline(1_000, () => false, passed);
    deadlines.defer(() => deadline.stop());
    deadline.count(100 * 1024 * 1024);
    await vi.advanceTimersByTimeAsync(1_000);
    deadline.count(16 * 1024 * 1024);
    expect(passed).not.toHaveBeenCalled();
    deadline.count(1);
    expect(passed).toHaveBeenCalledOnce();
  });
});

describe("a sandbox that responds but withholds a command's end", () => {
  it("by never starting it loses the command, and the shell is available again", async () => {
    await captured(() => new Promise(() => undefined));
    await expectGivenUp();
  });

  it("by staying silent loses the command, and the shell is available again", async () => {
    await captured((stream) => Promise.resolve(endless(stream, silence)));
    await expectGivenUp();
  });

  it("by printing a little forever loses the command, and the shell is available again", async () => {
    await captured((stream) => Promise.resolve(endless(stream, () => print(1, 5))));
    await expectGivenUp();
  });

  it("by flooding forever loses the command, and the shell is available again", async () => {
    await captured((stream) => Promise.resolve(endless(stream, () => print(1_048_576, 0))));
    await expectGivenUp();
  });
});
