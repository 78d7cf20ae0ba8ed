import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HttpFixture } from "../surfaces/testing/http-fixture.ts";
import { ALICE } from "./testing/core-fixture.ts";

const LOOK_UPS = [
  "getSession",
  "findByKey",
  "listSessions",
  "getExec",
  "findExec",
  "listExecs",
] as const;

let http: HttpFixture;
let id: string;
let lookUps: string[];
beforeEach(async () => {
  http = await HttpFixture.start();
  id = await http.createSession();
  lookUps = [];
  const { store } = http.core;
  for (const name of LOOK_UPS)
    vi.spyOn(store, name).mockImplementation(() => {
      lookUps.push(name);
      throw new Error(`${name} is a look-up`);
    });
});
afterEach(async () => {
  vi.restoreAllMocks();
  await http[Symbol.asyncDispose]();
});

describe("the store", () => {
  it("is not queried again by a handle, whatever it is used for", async () => {
    const { execs } = http.core.core;
    const inserted = vi.spyOn(http.core.store, "insertExec");
    const command = { kind: "shell", text: "echo one" } as const;
    const exec = await execs.start(ALICE, id, { command });
    const followed = Array.fromAsync(exec.follow({ offset: 0 }));
    await exec.wait();
    expect(Buffer.from((await exec.collect()).output).toString()).toBe("one\n");
    expect((await exec.read({ offset: 0, maxBytes: 100 })).page.chunks).toHaveLength(1);
    expect((await followed).flatMap(({ chunks }) => chunks)).toHaveLength(1);
    expect(await exec.shellCwd()).toBe("/workspace");
    expect(lookUps).toEqual([]);
    expect(inserted).toHaveBeenCalledOnce();
  });

  it.each(["exec", "exec/stream"])("is asked for no row by POST %s", async (route) => {
    const answer = await http.call(`/v1/sessions/${id}/${route}`, { body: { cmd: "echo one" } });
    expect(answer.text).toContain("one");
    expect([answer.status, lookUps]).toEqual([200, []]);
  });
});
