import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ExecHandle } from "./services/exec-service.ts";
import type { OpenPort } from "./services/port-service.ts";
import { ALICE, BOB, CoreFixture, SETTINGS } from "./testing/core-fixture.ts";

let fixture: CoreFixture;
let id: string;
let server: ExecHandle;
beforeEach(async () => {
  fixture = await CoreFixture.start();
  const { sessions, execs } = fixture.core;
  id = (await sessions.create(ALICE, {})).session.id;
  server = await execs.start(ALICE, id, {
    command: { kind: "process", argv: ["echo-server", "8000"] },
  });
  while ((await fixture.core.ports.list(ALICE, id)).length === 0) await new Promise(setImmediate);
});
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

const code = (expected: string) => expect.objectContaining({ code: expected });

describe("the ports of a session", () => {
  it("are listed for its owner only", async () => {
    const { ports } = fixture.core;
    expect(await ports.list(ALICE, id)).toMatchObject([{ port: 8000, process: "echo-server" }]);
    await expect(ports.list(BOB, id)).rejects.toThrow(code("SESSION_NOT_FOUND"));
  });

  it("can be reached by the owner and through a link, not by others, and only if something listens", async () => {
    const { ports } = fixture.core;
    for (const visitor of [ALICE, "link"] as const) {
      using open = await ports.connect(visitor, id, 8000);
      const writer = open.connection.writable.getWriter();
      void writer.write(Buffer.from("ping"));
      const { value } = await open.connection.readable.getReader().read();
      expect(Buffer.from(value ?? []).toString()).toBe("ping");
    }
    await expect(ports.connect(BOB, id, 8000)).rejects.toThrow(code("SESSION_NOT_FOUND"));
    await expect(ports.connect("link", "ses_none", 8000)).rejects.toThrow(
      code("SESSION_NOT_FOUND"),
    );
    await expect(ports.connect(ALICE, id, 8001)).rejects.toThrow(code("PORT_REFUSED"));
  });

  it("have a limited number of connections; a closed or failed one makes room", async () => {
    const { ports } = fixture.core;
    const open: OpenPort[] = [];
    for (let count = 0; count < SETTINGS.maxPortConnections; count += 1) {
      await expect(ports.connect(ALICE, id, 8001)).rejects.toThrow(code("PORT_REFUSED"));
      open.push(await ports.connect("link", id, 8000));
    }
    await expect(ports.connect(ALICE, id, 8000)).rejects.toThrow(code("QUOTA_EXCEEDED"));
    open.pop()?.[Symbol.dispose]();
    open.push(await ports.connect(ALICE, id, 8000));
    await expect(ports.connect("link", id, 8000)).rejects.toThrow(code("QUOTA_EXCEEDED"));
    for (const one of open) one[Symbol.dispose]();
  });

  it("keep the session from expiring only while a connection is open", async () => {
    const { ports, sessions, reaper, execs } = fixture.core;
    const open = await ports.connect("link", id, 8000);
    // A running command would also keep it.
    await server.cancel();
    await server.wait();
    await execs.settled();
    fixture.clock.pass(SETTINGS.defaultTtlMs + 1);
    await reaper.endOver();
    expect((await sessions.get(ALICE, id)).status).toBe("running");
    open[Symbol.dispose]();
    fixture.clock.pass(SETTINGS.defaultTtlMs + 1);
    await expect(ports.connect("link", id, 8000)).rejects.toThrow(code("SESSION_EXPIRED"));
  });
});
