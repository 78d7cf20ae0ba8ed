/** Responses that are not read take a limited amount of memory for each owner. */
import { once } from "node:events";
import type { Socket } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../testing/http-fixture.ts";

const FILE_BYTES = 6_000_000;
/** Each counts twice towards 128 MiB. */
const UNREAD = 11;

let http: HttpFixture;
beforeAll(async () => {
  const limits = { maxBodyBytes: 8_388_608, maxUploadBytes: 8_388_608 };
  http = await HttpFixture.start({ limits });
});
afterAll(async () => await http[Symbol.asyncDispose]());

const reading: Socket[] = [];

/** Asks for a large response and reads only its beginning. */
async function askWithoutReading(request: string): Promise<void> {
  const socket = await http.connect();
  reading.push(socket);
  socket.write(request);
  await once(socket, "readable");
}

it("refuses reads of files and output, and shortens results", async () => {
  const id = await http.createSession();
  const base = `/v1/sessions/${id}`;
  const content = "a".repeat(FILE_BYTES);
  await http.call(`${base}/fs/write`, { body: { path: "large", text: content } });
  const run = { cmd: ["cat"], stdin: content, output_budget_bytes: 16_777_216 };
  const { json: exec } = await http.call(`${base}/exec`, { body: run });
  expect(exec.truncated).toBe(false);
  const read = `${base}/fs/read?path=large&max_bytes=16777216`;
  const output = `${base}/execs/${exec.exec_id}/output?max_bytes=8388608`;
  const head = `Host: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\n\r\n`;
  for (let n = 0; n < UNREAD; n += 1) await askWithoutReading(`GET ${read} HTTP/1.1\r\n${head}`);
  for (const url of [read, output])
    expect(await http.call(url)).toMatchObject({
      status: 429,
      json: { error_code: "QUOTA_EXCEEDED" },
    });
  const again = await http.call(`${base}/execs/${exec.exec_id}/wait`, {
    body: { output_budget_bytes: 16_777_216 },
  });
  expect(again).toMatchObject({ status: 200, json: { truncated: true, exit_code: 0 } });
  expect((await http.call("/v1/sessions", { key: BOBS_KEY, body: {} })).status).toBe(201);
  for (const socket of reading) socket.destroy();
  while ((await http.call(read)).status !== 200) await new Promise(setImmediate);
  expect((await http.call(output)).status).toBe(200);
});
