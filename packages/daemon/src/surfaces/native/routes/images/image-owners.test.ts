import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { storeFixture } from "../../../../images/testing/store-fixture.ts";
import type { StoreFixture } from "../../../../images/testing/store-fixture.ts";
import { file, tarOf } from "../../../../images/testing/tar-writer.ts";
import { BOB } from "../../../../sessions/testing/core-fixture.ts";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../../../testing/http-fixture.ts";

let images: StoreFixture;
let http: HttpFixture;
beforeAll(async () => {
  images = await storeFixture();
  http = await HttpFixture.start({ replace: { imageStore: images.store } });
});
afterAll(async () => {
  await http[Symbol.asyncDispose]();
  await images[Symbol.asyncDispose]();
});

const imports = async (key: string, reference: string, text: string) =>
  await http.call(`/v1/images/import?reference=${reference}`, {
    key,
    body: tarOf([file("who", text)]),
  });
const removes = async (key: string, reference: string) =>
  await http.call(`/v1/images?reference=${reference}`, { key, method: "DELETE" });
const namesOf = async (key: string): Promise<unknown> => {
  const { json } = await http.call("/v1/images", { key });
  return (json.images as { reference: string; shared: boolean }[]).map(
    ({ reference, shared }) => `${reference} ${shared ? "shared" : "own"}`,
  );
};

describe("images over HTTP", () => {
  it("belong to the key that imported them; an administrator's are shared", async () => {
    expect(await imports(BOBS_KEY, "tool:1", "bob")).toMatchObject({
      status: 200,
      json: { shared: false },
    });
    expect(await imports(ALICES_KEY, "base:1", "alice")).toMatchObject({
      status: 200,
      json: { shared: true },
    });
    expect(await namesOf(BOBS_KEY)).toEqual(["host shared", "base:1 shared", "tool:1 own"]);
    expect(await namesOf(ALICES_KEY)).toEqual(["host shared", "base:1 shared"]);

    const { error_code, message } = (await removes(ALICES_KEY, "tool:1")).json;
    const unknown = (await removes(ALICES_KEY, "toad:1")).json;
    expect({ error_code, message: message.replace("tool", "toad") }).toEqual({
      error_code: unknown.error_code,
      message: unknown.message,
    });
    expect(await removes(BOBS_KEY, "base:1")).toMatchObject({
      status: 403,
      json: { error_code: "PERMISSION_DENIED" },
    });
    expect((await removes(BOBS_KEY, "tool:1")).status).toBe(200);
    expect(await namesOf(BOBS_KEY)).toEqual(["host shared", "base:1 shared"]);
  });

  it("can be imported four at a time by one key", async () => {
    const head = `POST /v1/images/import?reference=slow HTTP/1.1\r\nHost: 127.0.0.1:${http.port}\r\nAuthorization: Bearer ${BOBS_KEY}\r\nContent-Length: 1000\r\n\r\n`;
    const slow = await Promise.all([1, 2, 3, 4].map(async () => await http.connect()));
    for (const socket of slow) socket.write(`${head}some of it`);
    const uploads = join(http.directory, "uploads");
    await expect.poll(async () => (await readdir(uploads)).length).toBe(4);
    expect(await imports(BOBS_KEY, "fifth:1", "bob")).toMatchObject({
      status: 429,
      json: { error_code: "QUOTA_EXCEEDED" },
    });
    expect((await imports(ALICES_KEY, "other:1", "alice")).status).toBe(200);
    for (const socket of slow) socket.destroy();
    await expect.poll(async () => (await imports(BOBS_KEY, "fifth:1", "bob")).status).toBe(200);
  });

  it("are refused by the quota if the archive alone exceeds it", async () => {
    const quota = 10_000;
    await using small = await HttpFixture.start({
      replace: { imageStore: images.store },
      callers: [{ key: BOBS_KEY, caller: { ...BOB, maxImageBytes: quota } }],
    });
    const answer = await small.call("/v1/images/import?reference=large:1", {
      key: BOBS_KEY,
      body: tarOf([file("large", "x".repeat(quota))]),
    });
    expect(answer).toMatchObject({
      status: 429,
      json: { error_code: "QUOTA_EXCEEDED", details: { max_image_bytes: quota } },
    });
  });

  it("can be garbage-collected by an administrator only", async () => {
    const answer = await http.call("/v1/images/gc", { key: BOBS_KEY, method: "POST" });
    expect(answer).toMatchObject({ status: 403, json: { error_code: "PERMISSION_DENIED" } });
  });
});
