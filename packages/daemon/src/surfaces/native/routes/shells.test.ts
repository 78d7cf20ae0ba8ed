import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HttpFixture } from "../../testing/http-fixture.ts";
import type { Answer } from "../../testing/http-fixture.ts";

let http: HttpFixture;
let id: string;
beforeAll(async () => {
  http = await HttpFixture.start();
  id = await http.createSession();
});
afterAll(async () => await http[Symbol.asyncDispose]());

async function run(body: object): Promise<Answer> {
  return await http.call(`/v1/sessions/${id}/exec`, { body });
}

async function start(body: object): Promise<string> {
  return (await http.call(`/v1/sessions/${id}/execs`, { body })).json.exec_id as string;
}

async function wait(exec: string): Promise<Answer> {
  return await http.call(`/v1/sessions/${id}/execs/${exec}/wait`, { body: {} });
}

describe("shells", () => {
  it("are created by the first command that names them, listed and closed", async () => {
    const ran = await run({ cmd: "cd /tmp", shell: "build" });
    expect(ran.json).toMatchObject({ shell: "build", cwd: "/tmp" });
    expect((await run({ cmd: ["pwd"], shell: "build" })).json.output).toBe("/tmp\n");
    expect((await run({ cmd: "pwd" })).json).toMatchObject({
      shell: "default",
      output: "/workspace\n",
    });
    const shells = await http.call(`/v1/sessions/${id}/shells`);
    expect(shells.json.shells).toEqual([
      { name: "default", kind: "sh", cwd: "/workspace", busy: false, queued: 0 },
      { name: "build", kind: "sh", cwd: "/tmp", busy: false, queued: 0 },
    ]);
    const path = `/v1/sessions/${id}/shells/build`;
    expect(await http.call(path, { method: "DELETE" })).toMatchObject({ status: 200 });
    expect(await http.call(path, { method: "DELETE" })).toMatchObject({
      status: 404,
      json: { error_code: "SHELL_NOT_FOUND" },
    });
    expect((await run({ cmd: "pwd", shell: "build" })).json.output).toBe("/workspace\n");
  });

  it.each([
    { cmd: "true", shell: "build", stateful: false },
    { cmd: "true", shell: "../etc" },
    { cmd: ["true"], shell: "build", user: "1000" },
  ])("refuses %j", async (body) => {
    expect(await run(body)).toMatchObject({ status: 400, json: { error_code: "INVALID_REQUEST" } });
  });
});

describe("cancel", () => {
  it("ends a command, whose result says so", async () => {
    const exec = await start({ cmd: "echo begun; sleep 100" });
    const cancel = () => http.call(`/v1/sessions/${id}/execs/${exec}/cancel`, { method: "POST" });
    expect((await cancel()).json).toEqual({ ok: true, cancelled: true });
    expect((await wait(exec)).json).toMatchObject({
      status: "done",
      end_reason: "cancelled",
      timed_out: false,
    });
    expect((await cancel()).json).toEqual({ ok: true, cancelled: false });
  });

  it.each(["exec", "exec/stream"])(
    "happens when the client of %s leaves, if requested",
    async (route) => {
      for (const [on_disconnect, end_reason, seconds] of [
        ["cancel", "cancelled", "100"],
        ["continue", "exited", "1"],
      ] as const) {
        const leave = new AbortController();
        const body = { cmd: ["sleep", seconds], on_disconnect };
        const answer = http.fetch(`/v1/sessions/${id}/${route}`, { body, signal: leave.signal });
        const ended = answer.then((response) => response.text()).catch(() => undefined);
        const newest = async () =>
          (await http.call(`/v1/sessions/${id}/execs?limit=1`)).json.execs[0] as {
            exec_id: string;
            status: string;
          };
        await expect.poll(async () => (await newest()).status).toBe("running");
        leave.abort();
        await ended;
        expect((await wait((await newest()).exec_id)).json).toMatchObject({ end_reason });
      }
    },
  );
});
