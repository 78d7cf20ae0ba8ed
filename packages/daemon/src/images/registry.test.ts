/** Pulling from a real registry on loopback. */
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pushImage } from "../backends/docker/images/testing/push-image.ts";
import { ociArchive, sha256 } from "./testing/oci-writer.ts";
import type { LayerContent } from "./testing/oci-writer.ts";
import { startRegistry } from "./testing/registry.ts";
import type { Registry } from "./testing/registry.ts";
import { storeFixture } from "./testing/store-fixture.ts";
import type { StoreFixture } from "./testing/store-fixture.ts";
import { file, tarOf } from "./testing/tar-writer.ts";

let registry: Registry;
beforeAll(async () => {
  registry = await startRegistry();
});
afterAll(async () => {
  await registry[Symbol.asyncDispose]();
});

function layer(name: string, content: string | Buffer): LayerContent {
  return {
    bytes: gzipSync(tarOf([file(name, content)])),
    mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
  };
}

async function pushed(
  fixture: StoreFixture,
  name: string,
  layers: LayerContent[],
  format: "oci" | "v2s2" = "oci",
): Promise<string> {
  const { archive, digest } = ociArchive(layers, { env: ["FROM=registry"] });
  await registry.push(await fixture.archive(archive), name, format);
  return digest;
}

describe("pull()", () => {
  test("downloads, unpacks and names an image, and reports both phases", async () => {
    await using fixture = await storeFixture({ insecureRegistries: [registry.address] });
    const digest = await pushed(fixture, "team/app:1", [
      layer("one", "1"),
      layer("two", randomBytes(500_000)),
    ]);
    const reference = `${registry.address}/team/app:1`;
    await expect(fixture.store.resolve(reference)).rejects.toMatchObject({
      message: expect.stringContaining("Pull it"),
    });
    const phases: string[] = [];
    const info = await fixture.store.pull(reference, ({ phase }) => phases.push(phase));
    expect(info).toMatchObject({
      reference,
      digest,
      source: "registry",
      env: { FROM: "registry" },
    });
    expect(new Set(phases)).toEqual(new Set(["download", "unpack"]));
    expect(readFileSync(join((await fixture.store.rootfs(reference)).path, "one"), "utf8")).toBe(
      "1",
    );
    await expect(fixture.store.resolve(reference)).resolves.toMatchObject({
      reference,
      requested: reference,
    });
    expect(fixture.temporaries()).toEqual([]);
  });

  test("understands Docker's own manifests", async () => {
    await using fixture = await storeFixture({ insecureRegistries: [registry.address] });
    await pushed(fixture, "docker/app:1", [layer("one", "1")], "v2s2");
    const info = await fixture.store.pull(`${registry.address}/docker/app:1`);
    expect(info.env).toEqual({ FROM: "registry" });
    expect(existsSync(join((await fixture.store.rootfs(info.reference)).path, "one"))).toBe(true);
  });

  test("downloads nothing that already exists, and several callers share one download", async () => {
    await using fixture = await storeFixture({ insecureRegistries: [registry.address] });
    await pushed(fixture, "shared/app:1", [layer("one", randomBytes(200_000)), layer("two", "2")]);
    const reference = `${registry.address}/shared/app:1`;
    const before = registry.blobRequests();
    const infos = await Promise.all(
      [1, 2, 3, 4].map(async () => await fixture.store.pull(reference)),
    );
    expect(new Set(infos.map(({ digest }) => digest)).size).toBe(1);
    const downloads = registry.blobRequests() - before;
    expect(downloads).toBe(3);
    await fixture.store.pull(reference);
    expect(registry.blobRequests() - before).toBe(downloads);
  });

  test("follows a tag that has moved, but not a pinned one", async () => {
    await using fixture = await storeFixture({ insecureRegistries: [registry.address] });
    const first = await pushed(fixture, "moving/app:1", [layer("one", "1")]);
    await fixture.store.pull(`${registry.address}/moving/app:1`);
    const second = await pushed(fixture, "moving/app:1", [layer("one", "2")]);
    expect((await fixture.store.pull(`${registry.address}/moving/app:1`)).digest).toBe(second);
    const pinned = `${registry.address}/moving/app@${first}`;
    expect((await fixture.store.pull(pinned)).digest).toBe(first);
    expect((await fixture.store.inspect(pinned)).reference).toBe(pinned);
    await expect(
      fixture.store.pull(`${registry.address}/moving/app@${sha256("none")}`),
    ).rejects.toMatchObject({
      code: "INVALID_IMAGE",
    });
  });

  test("accepts only digests if the policy requires them", async () => {
    const insecureRegistries = [registry.address];
    await using fixture = await storeFixture({ insecureRegistries, requireDigests: true });
    const digest = await pushed(fixture, "strict/app:1", [layer("one", "1")]);
    const name = `${registry.address}/strict/app`;
    await expect(fixture.store.pull(`${name}:1`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("only pulls images by digest"),
    });
    await expect(fixture.store.ensure(`${name}@${digest}`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("is not present"),
    });
    await fixture.store.pull(`${name}@${digest}`);
    expect((await fixture.store.ensure(`${name}@${digest}`)).digest).toBe(digest);
  });

  test("refuses an image that is too large before it downloads", async () => {
    await using fixture = await storeFixture({
      insecureRegistries: [registry.address],
      limits: { archiveBytes: 50_000 },
    });
    await pushed(fixture, "large/app:1", [layer("big", randomBytes(100_000))]);
    const before = registry.blobRequests();
    await expect(fixture.store.pull(`${registry.address}/large/app:1`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("the limit is 50000"),
    });
    expect(registry.blobRequests()).toBe(before);
  });

  test("reports what is wrong with a name or a registry", async () => {
    await using fixture = await storeFixture({ insecureRegistries: [registry.address] });
    await expect(fixture.store.pull(`${registry.address}/no/such:1`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("has no such image"),
    });
    const strict = await fixture.open({ insecureRegistries: [] });
    await expect(strict.pull(`${registry.address}/no/such:1`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining(`the registry ${registry.address} is not allowed here`),
    });
    const secure = await fixture.open({ insecureRegistries: [], registries: [registry.address] });
    await expect(secure.pull(`${registry.address}/no/such:1`)).rejects.toMatchObject({
      code: "REGISTRY_UNREACHABLE",
    });
    expect(fixture.temporaries()).toEqual([]);
  });

  test("logs in with the credentials of the administrator's file", async () => {
    const user = "alice:$2b$04$abcdefghijklmnopqrstuuS80hwFD6gSIL20SCUGvmL7S939BjOHW";
    await using closed = await startRegistry(user);
    await using fixture = await storeFixture({ insecureRegistries: [closed.address] });
    const layers = [tarOf([file("x", "x")])];
    await pushImage(closed.address, "app:1", layers, { user: "alice:right-password" });
    const pull = async (password: string): Promise<string> => {
      const auth = Buffer.from(`alice:${password}`).toString("base64");
      const text = JSON.stringify({ auths: { [closed.address]: { auth } } });
      const credentialsFile = await fixture.archive(Buffer.from(text));
      const store = await fixture.open({ credentialsFile });
      return (await store.pull(`${closed.address}/app:1`)).source;
    };
    const refused = { code: "INVALID_IMAGE", message: expect.stringContaining("refused access") };
    await expect(fixture.store.pull(`${closed.address}/app:1`)).rejects.toMatchObject(refused);
    await expect(pull("wrong")).rejects.toMatchObject(refused);
    expect(await pull("right-password")).toBe("registry");
  });

  test("returns the host image without a download", async () => {
    await using fixture = await storeFixture();
    expect((await fixture.store.pull("host")).source).toBe("host");
  });
});

test("a registry that sends more than announced is disconnected at once", async () => {
  const config = Buffer.from(JSON.stringify({ os: "linux", rootfs: { diff_ids: [] }, config: {} }));
  const layerDigest = sha256("never this");
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      config: {
        mediaType: "application/vnd.oci.image.config.v1+json",
        digest: sha256(config),
        size: config.length,
      },
      layers: [
        {
          mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
          digest: layerDigest,
          size: 1000,
        },
      ],
    }),
  );
  let sent = 0;
  const server = createServer((request, response) => {
    const url = request.url ?? "";
    if (url.includes("/manifests/")) {
      response.setHeader("content-type", "application/vnd.oci.image.manifest.v1+json");
      response.setHeader("docker-content-digest", sha256(manifest));
      response.end(manifest);
    } else if (url.endsWith(sha256(config))) {
      response.end(config);
    } else if (url.endsWith(layerDigest)) {
      const chunk = randomBytes(256 * 1024);
      const more = (): void => {
        do sent += chunk.length;
        while (!response.destroyed && response.write(chunk));
        response.once("drain", more);
      };
      more();
    } else {
      response.end("{}");
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const address = `127.0.0.1:${(server.address() as { port: number }).port}`;
    await using fixture = await storeFixture({
      insecureRegistries: [address],
      limits: { archiveBytes: 2_000_000 },
    });
    await expect(fixture.store.pull(`${address}/endless:1`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("did not return an image"),
    });
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThan(50_000_000);
    expect(fixture.temporaries()).toEqual([]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
