import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type {
  ImageInfo,
  ImageProgress,
  Images,
  ResolvedImage,
} from "../../../../ports/image-store.ts";
import { HttpFixture } from "../../../testing/http-fixture.ts";
import { parseEvents } from "../../../testing/read-events.ts";

const info = (reference: string): ImageInfo => ({
  reference,
  digest: "sha256:00",
  source: "registry",
  sizeBytes: 42,
  createdAtMs: Date.UTC(2026, 0, 2),
  env: { SECRET: "hidden" },
  shared: true,
});

/** Records its requests, and fails for references that say so. */
class NotingImages implements Images {
  readonly notes: unknown[] = [];

  list(): Promise<ImageInfo[]> {
    return Promise.resolve([info("host"), info("python:3")]);
  }

  async pull(
    reference: string,
    onProgress?: (progress: ImageProgress) => void,
  ): Promise<ImageInfo> {
    onProgress?.({ phase: "download", done: 1, total: 2 });
    await new Promise(setImmediate);
    onProgress?.({ phase: "unpack", done: 2 });
    await new Promise(setImmediate);
    return await this.#found(reference);
  }

  async importRootfs(reference: string, tarball: string): Promise<ImageInfo> {
    return await this.#imported("rootfs", reference, tarball);
  }

  async importOciArchive(reference: string, archive: string): Promise<ImageInfo> {
    return await this.#imported("oci-archive", reference, archive);
  }

  remove(reference: string): Promise<void> {
    this.notes.push(["remove", reference]);
    return Promise.resolve();
  }

  resolve(name: string): Promise<ResolvedImage> {
    return Promise.resolve({ reference: name, requested: name, isSubstitute: false });
  }

  ensure(reference: string): Promise<ImageInfo> {
    return this.#found(reference);
  }

  inspect(reference: string): Promise<ImageInfo> {
    return this.#found(reference);
  }

  async #imported(format: string, reference: string, path: string): Promise<ImageInfo> {
    this.notes.push([format, reference, await readFile(path, "utf8")]);
    if (reference === "broken")
      throw new SandboxError("INVALID_IMAGE", `The archive ${path} is broken.`);
    return await this.#found(reference);
  }

  #found(reference: string): Promise<ImageInfo> {
    return reference === "missing"
      ? Promise.reject(new SandboxError("INVALID_IMAGE", "The image missing is not there."))
      : Promise.resolve(info(reference));
  }
}

const images = new NotingImages();
let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start({
    replace: {
      images,
      collectImages: async ({ owner }) => {
        images.notes.push(["collect", owner]);
        return await Promise.resolve({ removed: 1, freedBytes: 99 });
      },
    },
    limits: { maxBodyBytes: 1000, maxUploadBytes: 5000 },
  });
});
afterAll(async () => await http[Symbol.asyncDispose]());

describe("images", () => {
  it("are listed without internal details", async () => {
    expect((await http.call("/v1/images")).json).toMatchObject({
      images: [
        {
          reference: "host",
          digest: "sha256:00",
          size_bytes: 42,
          created_at: "2026-01-02T00:00:00.000Z",
        },
        {},
      ],
    });
    expect((await http.call("/v1/images")).text).not.toContain("hidden");
  });

  it("can be pulled, with a response at the end", async () => {
    const answer = await http.call("/v1/images/pull", { body: { reference: "alpine" } });
    expect(answer).toMatchObject({ status: 200, json: { reference: "alpine" } });
    const missing = await http.call("/v1/images/pull", { body: { reference: "missing" } });
    expect(missing).toMatchObject({ status: 400, json: { error_code: "INVALID_IMAGE" } });
  });

  it("can be pulled, with progress events", async () => {
    const headers = { accept: "text/event-stream" };
    const answer = await http.call("/v1/images/pull", { body: { reference: "alpine" }, headers });
    expect(parseEvents(answer.text)).toMatchObject([
      { event: "progress", data: { phase: "download", done: 1, total: 2 } },
      { event: "progress", data: { phase: "unpack", done: 2 } },
      { event: "done", data: { reference: "alpine" } },
    ]);
    const missing = await http.call("/v1/images/pull", { body: { reference: "missing" }, headers });
    expect(parseEvents(missing.text).at(-1)).toMatchObject({
      event: "error",
      data: { error_code: "INVALID_IMAGE" },
    });
  });

  it("can be imported from a body, which is deleted afterwards", async () => {
    for (const [query, format] of [
      ["", "rootfs"],
      ["&format=oci-archive", "oci-archive"],
    ]) {
      images.notes.length = 0;
      const answer = await http.call(`/v1/images/import?reference=mine${query ?? ""}`, {
        body: "archive bytes",
      });
      expect(answer).toMatchObject({ status: 200, json: { reference: "mine" } });
      expect(images.notes).toEqual([[format, "mine", "archive bytes"]]);
    }
    const broken = await http.call("/v1/images/import?reference=broken", { body: "x" });
    expect(broken).toMatchObject({
      status: 400,
      json: { error_code: "INVALID_IMAGE", message: "The archive that was sent is broken." },
    });
    const large = await http.call("/v1/images/import?reference=mine", { body: "x".repeat(5001) });
    expect(large.status).toBe(413);
    expect((await http.call("/v1/images/import", { body: "x" })).status).toBe(400);
    expect(await readdir(join(http.directory, "uploads"))).toEqual([]);
  });

  it("can be removed, and unused ones are garbage-collected", async () => {
    images.notes.length = 0;
    await http.createSession();
    expect((await http.call("/v1/images?reference=a%2Fb:1", { method: "DELETE" })).json).toEqual({
      ok: true,
    });
    expect((await http.call("/v1/images", { method: "DELETE" })).status).toBe(400);
    expect((await http.call("/v1/images/gc", { method: "POST" })).json).toEqual({
      ok: true,
      removed: 1,
      freed_bytes: 99,
    });
    expect(images.notes).toEqual([
      ["remove", "a/b:1"],
      ["collect", "alice"],
    ]);
  });
});
