import { expect, test } from "vitest";
import type { ImageProgress } from "./image-types.ts";
import { cut, event, events, failure, json, ScriptedServer } from "./testing/scripted-server.ts";
import { clientOf } from "./testing/wire-samples.ts";

const image = {
  reference: "python:3.11-slim",
  digest: "sha256:00",
  source: "registry",
  size_bytes: 42,
  created_at: "2026-01-31T12:00:00.000Z",
};
const shown = {
  reference: "python:3.11-slim",
  digest: "sha256:00",
  source: "registry",
  sizeBytes: 42,
  createdAt: "2026-01-31T12:00:00.000Z",
};

test("pull() reports its progress and returns the image", async () => {
  await using server = await ScriptedServer.start(
    events([
      event("progress", { phase: "download", done: 1, total: 2 }),
      event("progress", { phase: "unpack", done: 2 }),
      event("done", image),
    ]),
  );
  const progress: ImageProgress[] = [];
  const pulled = await clientOf(server).images.pull("python:3.11-slim", {
    onProgress: (news) => progress.push(news),
  });
  expect(pulled).toEqual(shown);
  expect(progress).toEqual([
    { phase: "download", done: 1, total: 2 },
    { phase: "unpack", done: 2 },
  ]);
  expect(server.lines).toEqual(["POST /v1/images/pull"]);
  expect(server.json(0)).toEqual({ reference: "python:3.11-slim" });
  expect(server.requests[0]!.headers.accept).toContain("text/event-stream");
});

test("pull() throws errors before, in and instead of the events", async () => {
  await using server = await ScriptedServer.start(
    failure(400, "INVALID_IMAGE"),
    events([event("error", { error: "no such image", error_code: "INVALID_IMAGE" })]),
    events([event("progress", { phase: "download", done: 1 })]),
    events([event("progress", { phase: "download", done: 1 })], "cut"),
    cut,
  );
  const { images } = clientOf(server);
  await expect(images.pull("x")).rejects.toMatchObject({ code: "INVALID_IMAGE" });
  await expect(images.pull("x")).rejects.toMatchObject({ message: "no such image" });
  for (let broken = 0; broken < 3; broken++) {
    await expect(images.pull("x")).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  }
  expect(server.requests).toHaveLength(5);
});

test("an error of the caller's own onProgress is not the daemon's", async () => {
  await using server = await ScriptedServer.start(
    events([event("progress", { phase: "download", done: 1 })], "stay"),
  );
  const mistake = new Error("my mistake");
  const onProgress = (): never => {
    throw mistake;
  };
  await expect(clientOf(server).images.pull("x", { onProgress })).rejects.toBe(mistake);
});

test("import() sends the archive, and accepts a response with events or without", async () => {
  await using server = await ScriptedServer.start(
    json(200, image),
    events([event("done", image)]),
    (response) => {
      response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "99" });
      response.write("{", () => response.destroy());
    },
  );
  const { images } = clientOf(server);
  const archive = new Blob(["tar"]).stream();
  expect(await images.import("mine", archive, { format: "oci-archive" })).toEqual(shown);
  expect(await images.import("mine", "tar")).toEqual(shown);
  await expect(images.import("mine", "tar")).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  expect(server.lines).toEqual([
    "POST /v1/images/import?reference=mine&format=oci-archive",
    "POST /v1/images/import?reference=mine",
    "POST /v1/images/import?reference=mine",
  ]);
  expect(server.requests.map(({ body }) => body.toString())).toEqual(["tar", "tar", "tar"]);
});

test("images can be listed, removed and garbage-collected", async () => {
  await using server = await ScriptedServer.start(
    json(200, { images: [image] }),
    json(200, { ok: true }),
    json(200, { ok: true, removed: 2, freed_bytes: 7 }),
  );
  const { images } = clientOf(server);
  expect(await images.list()).toEqual([shown]);
  await images.remove("a/b:c");
  expect(await images.collectGarbage()).toEqual({ removed: 2, freedBytes: 7 });
  expect(server.lines).toEqual([
    "GET /v1/images",
    "DELETE /v1/images?reference=a%2Fb%3Ac",
    "POST /v1/images/gc",
  ]);
});
