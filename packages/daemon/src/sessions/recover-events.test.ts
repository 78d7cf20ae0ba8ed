import { SandboxError } from "@sandkasten/protocol";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { StoredEvent } from "../ports/event-log.ts";
import { setTimeout as sleep } from "node:timers/promises";
import type { Backend } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { ExecRow, SessionStore } from "../ports/session-store.ts";
import { ALICE, CoreFixture, overriding } from "./testing/core-fixture.ts";

let fixture: CoreFixture;
beforeEach(async () => {
  fixture = await CoreFixture.start();
});
afterEach(async () => await fixture[Symbol.asyncDispose]());

async function events(): Promise<readonly StoredEvent[]> {
  using follower = await fixture.events.open({
    follower: "test",
    from: "start",
    once: true,
    signal: new AbortController().signal,
  });
  const items = await Array.fromAsync(follower.items());
  return items.flatMap((item) => (item.kind === "event" ? [item.event] : []));
}

const names = (all: readonly StoredEvent[]): string[] =>
  all.map(({ type, data }) => ("exec_id" in data ? `${type} ${data.exec_id}` : type));

describe("events of a daemon that was killed", () => {
  it("are recorded by the next one, each once, if there was no time to store them", async () => {
    const { session } = await fixture.core.sessions.create(ALICE, {});
    const before = await fixture.run(session.id, "echo before");
    await fixture.core.execs.settled();
    expect(names(await events())).toEqual([
      "session.created",
      "session.running",
      `exec.started ${before.id}`,
      `exec.ended ${before.id}`,
    ]);
    fixture.clock.pass(20);
    const ended = await fixture.run(session.id, "echo ended");
    await fixture.core.execs.settled();
    const { session: second } = await fixture.core.sessions.create(ALICE, {});
    // None of that is in the log yet.
    await fixture.crash();
    const after = await events();
    expect(names(after).toSorted()).toEqual(
      [
        "session.created",
        "session.running",
        `exec.started ${before.id}`,
        `exec.ended ${before.id}`,
        `exec.started ${ended.id}`,
        `exec.ended ${ended.id}`,
        "session.created",
        "session.running",
      ].toSorted(),
    );
    expect(after.filter(({ sessionId }) => sessionId === second.id)).toHaveLength(2);
    expect(after.find(({ data }) => "exec_id" in data && data.exec_id === ended.id)?.atMs).toBe(
      ended.startedAtMs,
    );
    await fixture.crash();
    expect(names(await events())).toEqual(names(after));
  });

  it("report an end that only the sandbox knows before the next command's start", async () => {
    await fixture[Symbol.asyncDispose]();
    fixture = await CoreFixture.start({
      wrapStore: (store) =>
        overriding(store, { updateExec: async () => await new Promise<never>(() => {}) }),
    });
    const { session } = await fixture.core.sessions.create(ALICE, {});
    const answered = await fixture.run(session.id, "echo answered");
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        open: async (...args) => {
          const channel = await backend.open(...args);
          return overriding(channel, {
            attach: async (...of) => {
              await sleep(50);
              return await channel.attach(...of);
            },
          });
        },
      });
    await fixture.crash({ wrap });
    const next = await fixture.run(session.id, "echo next");
    await fixture.core.execs.settled();
    expect(names(await events()).slice(2)).toEqual([
      `exec.started ${answered.id}`,
      `exec.ended ${answered.id}`,
      `exec.started ${next.id}`,
      `exec.ended ${next.id}`,
    ]);
  });

  describe("with ends that only the sandbox knows", () => {
    let answered: ExecRow[];
    const inOrder = (): string[] =>
      answered.flatMap(({ id }) => [`exec.started ${id}`, `exec.ended ${id}`]);
    const wrapStore = (store: SessionStore): SessionStore =>
      overriding(store, { updateExec: async () => await new Promise<never>(() => {}) });
    const wrapChannel = (replaced: (channel: Channel) => Partial<Channel>) => (backend: Backend) =>
      overriding(backend, {
        open: async (...args) => {
          const channel = await backend.open(...args);
          return overriding(channel, replaced(channel));
        },
      });
    /** Answers nothing until it is closed. */
    const silent = (channel: Channel): Partial<Channel> => {
      const closed = Promise.withResolvers<never>();
      closed.promise.catch(() => undefined);
      return {
        listExecs: () => closed.promise,
        attach: () => closed.promise,
        close: () => {
          closed.reject(new SandboxError("SANDBOX_UNREACHABLE", "the channel is closed"));
          channel.close();
        },
      };
    };
    beforeEach(async () => {
      await fixture[Symbol.asyncDispose]();
      fixture = await CoreFixture.start({ wrapStore });
      const { session } = await fixture.core.sessions.create(ALICE, {});
      answered = [
        await fixture.run(session.id, "echo one"),
        await fixture.run(session.id, "echo two"),
        await fixture.run(session.id, "", { command: { kind: "process", argv: ["echo"] } }),
        await fixture.run(session.id, "echo four"),
      ];
    });

    it("tell of each end before the next start, though the sandbox answers late", async () => {
      const late = async <T>(answer: () => Promise<T>): Promise<T> => {
        await sleep(50);
        return await answer();
      };
      const wrap = wrapChannel((channel) => ({
        listExecs: async () => await late(async () => await channel.listExecs()),
        attach: async (...of) => await late(async () => await channel.attach(...of)),
      }));
      await fixture.crash({ wrap });
      await fixture.core.execs.settled();
      expect(names(await events()).slice(2)).toEqual(inOrder());
    });

    it("leave them to the daemon after the next one, if that one stops too early", async () => {
      await fixture.crash({ wrap: wrapChannel(silent) });
      const [first] = inOrder();
      expect(names(await events()).slice(2)).toEqual([first]);
      await fixture.restart("keep", {});
      await fixture.core.execs.settled();
      expect(names(await events()).slice(2)).toEqual(inOrder());
    });

    it("tell of the starts when the sandbox has been silent for too long", async () => {
      await fixture.crash({ wrap: wrapChannel(silent) });
      const starts = inOrder().filter((name) => name.startsWith("exec.started"));
      await vi.waitUntil(async () => names(await events()).length === 2 + starts.length, {
        timeout: 60_000,
      });
      expect(names(await events()).slice(2)).toEqual(starts);
    });
  });

  it("that ended with their sandbox end once in the feed", async () => {
    const { session } = await fixture.core.sessions.create(ALICE, {});
    const { id } = await fixture.core.execs.start(ALICE, session.id, {
      command: { kind: "shell", text: "sleep 1000" },
    });
    await events();
    fixture.machine.sandboxes.clear();
    await fixture.crash();
    const all = await events();
    expect(names(all)).toEqual([
      "session.created",
      "session.running",
      `exec.started ${id}`,
      `exec.ended ${id}`,
      "session.ended",
    ]);
    expect(all.at(-2)?.data).toMatchObject({ end_reason: "sandbox_gone" });
    expect(all.at(-1)?.data).toMatchObject({ status: "crashed" });
  });
});
