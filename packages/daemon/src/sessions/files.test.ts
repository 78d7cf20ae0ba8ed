import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FileLocation, FileWrite } from "./services/file-service.ts";
import { ALICE, BOB, CoreFixture } from "./testing/core-fixture.ts";

let fixture: CoreFixture;
let writes: FileWrite[];
let session: FileLocation;
beforeEach(async () => {
  writes = [];
  fixture = await CoreFixture.start({ onFileWrite: (write) => void writes.push(write) });
  const { id } = (await fixture.core.sessions.create(ALICE, {})).session;
  session = { kind: "session", id };
});
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

const code = (expected: string) => expect.objectContaining({ code: expected });

describe("every change of files", () => {
  it("is reported once it has succeeded, with its kind and path", async () => {
    using files = await fixture.core.files.open(ALICE, session);
    await files.writeFile("a", Buffer.from("one"));
    await files.appendFile("a", Buffer.from(" two"));
    await files.makeDirectory("/workspace/dir");
    await files.copy("a", "/workspace/dir/b");
    await files.move("a", "/workspace/c");
    await files.remove("c");
    const told = writes.map(({ operation, path, from }) => [operation, path.path, from?.path]);
    expect(told).toEqual([
      ["write", "/workspace/a", undefined],
      ["append", "/workspace/a", undefined],
      ["make_directory", "/workspace/dir", undefined],
      ["copy", "/workspace/dir/b", "a"],
      ["move", "/workspace/c", "a"],
      ["remove", "/workspace/c", undefined],
    ]);
    for (const write of writes)
      expect(write).toMatchObject({ owner: ALICE.owner, location: session });
  });

  it("is not reported if it fails, nor are calls that only read", async () => {
    using files = await fixture.core.files.open(ALICE, session);
    await expect(files.remove("missing")).rejects.toThrow(code("FILE_NOT_FOUND"));
    await expect(files.move("missing", "x")).rejects.toThrow(code("FILE_NOT_FOUND"));
    await files.listDirectory("/workspace");
    await files.stat("/workspace");
    expect(writes).toEqual([]);
  });

  it("in a workspace without a session names the workspace", async () => {
    const location = { kind: "workspace", id: "notes" } as const;
    using files = await fixture.core.files.open(ALICE, location, { create: true });
    await files.writeFile("/workspace/x", Buffer.from("x"));
    expect(writes).toMatchObject([{ owner: ALICE.owner, location, operation: "write" }]);
  });
});

describe("files", () => {
  it("do not exist for other owners", async () => {
    const { files } = fixture.core;
    await expect(files.open(BOB, session)).rejects.toThrow(code("SESSION_NOT_FOUND"));
  });

  it("of an unknown workspace are created only if requested", async () => {
    const location = { kind: "workspace", id: "new" } as const;
    const { files } = fixture.core;
    await expect(files.open(ALICE, location)).rejects.toThrow(code("FILE_NOT_FOUND"));
    (await files.open(ALICE, location, { create: true }))[Symbol.dispose]();
    (await files.open(ALICE, location))[Symbol.dispose]();
  });

  it("keep their session in use until they are disposed of", async () => {
    const { files, reaper, sessions } = fixture.core;
    const opened = await files.open(ALICE, session);
    fixture.clock.pass(60_001);
    await reaper.tick();
    expect((await sessions.get(ALICE, session.id)).status).toBe("running");
    opened[Symbol.dispose]();
    // Its lease restarts when the last call ends.
    fixture.clock.pass(59_000);
    await reaper.tick();
    expect((await sessions.get(ALICE, session.id)).status).toBe("running");
    fixture.clock.pass(1_001);
    await reaper.tick();
    expect((await sessions.get(ALICE, session.id)).status).toBe("expired");
  });
});
