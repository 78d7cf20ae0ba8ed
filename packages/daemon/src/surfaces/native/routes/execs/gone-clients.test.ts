/** Clients that disconnect before their command has started. */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { HttpFixture } from "../../../testing/http-fixture.ts";

let http: HttpFixture;
let asked: PromiseWithResolvers<void>;
let starts: PromiseWithResolvers<void>;
beforeAll(async () => {
  http = await HttpFixture.start({
    replace: {
      execs: {
        async start(...args) {
          asked.resolve();
          await starts.promise;
          return await this.start!(...args);
        },
      },
    },
  });
});
beforeEach(() => {
  asked = Promise.withResolvers<void>();
  starts = Promise.withResolvers<void>();
});
afterAll(async () => await http[Symbol.asyncDispose]());

it.each(["exec", "exec/stream"])("cancels the command of %s, if requested", async (route) => {
  const id = await http.createSession();
  const left = new AbortController();
  const cutOff = http.logLines.filter(isCutOff).length;
  const body = { cmd: ["sleep", "100"], on_disconnect: "cancel" };
  const answer = http.fetch(`/v1/sessions/${id}/${route}`, { body, signal: left.signal });
  const hasFailed = answer.then(
    () => false,
    () => true,
  );
  await asked.promise;
  left.abort();
  expect(await hasFailed).toBe(true);
  await expect.poll(() => http.logLines.filter(isCutOff).length).toBe(cutOff + 1);
  starts.resolve();
  const list = async () =>
    (await http.call(`/v1/sessions/${id}/execs`)).json.execs as { end_reason?: string }[];
  await expect.poll(list).toMatchObject([{ end_reason: "cancelled" }]);
});

function isCutOff(line: string): boolean {
  return (JSON.parse(line) as { cut_off?: boolean }).cut_off === true;
}
