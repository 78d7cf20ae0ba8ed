import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ALICE, CoreFixture, overriding } from "../sessions/testing/core-fixture.ts";
import { eventLines } from "./event-lines.ts";

let fixture: CoreFixture;
let isBroken: boolean;
let lines: {
  readonly level: string;
  readonly fields: unknown;
  readonly text: string | undefined;
}[];
beforeEach(async () => {
  isBroken = false;
  lines = [];
  fixture = await CoreFixture.start({
    wrap: (backend) =>
      overriding(backend, {
        create: async (spec, signal) => {
          if (isBroken) throw new Error("the engine fell over");
          return await backend.create(spec, signal);
        },
      }),
  });
  const at =
    (level: string) =>
    (fields: unknown, text?: string): void =>
      void lines.push({ level, fields, text });
  fixture.events.onEvents(eventLines({ info: at("info"), warn: at("warn"), error: at("error") }));
});
afterEach(async () => await fixture[Symbol.asyncDispose]());

const texts = (): string[] => lines.map(({ level, text }) => `${level} ${text}`);

describe("the log lines of events", () => {
  it("report the states of a session, but nothing as frequent as commands and files", async () => {
    const { sessions, execs, files } = fixture.core;
    const { session } = await sessions.create(ALICE, {});
    await fixture.run(session.id, "echo one");
    await execs.settled();
    {
      using opened = await files.open(ALICE, { kind: "session", id: session.id });
      await opened.writeFile("/workspace/a", Buffer.from("x"));
    }
    await sessions.pause(ALICE, session.id);
    await sessions.resume(ALICE, session.id);
    await sessions.destroy(ALICE, session.id);
    const happened = ["created", "running", "paused", "resumed", "ended"];
    expect(texts()).toEqual(happened.map((what) => `info session.${what}`));
    expect(lines.at(-1)?.fields).toMatchObject({
      event: "session.ended",
      owner: "alice",
      session: session.id,
      status: "destroyed",
    });
  });

  it("warn about a session that could not be created or died", async () => {
    isBroken = true;
    await expect(fixture.core.sessions.create(ALICE, {})).rejects.toThrow("fell over");
    expect(texts()).toEqual(["info session.created", "warn session.ended"]);
    expect(lines.at(-1)?.fields).toMatchObject({ status: "failed", error_code: "INTERNAL_ERROR" });
  });
});
