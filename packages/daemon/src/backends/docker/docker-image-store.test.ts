/** Allowed images, their names, and what is listed, removed and swept, on a real engine. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ociArchive, sha256 } from "../../images/testing/oci-writer.ts";
import { file, tarOf } from "../../images/testing/tar-writer.ts";
import type { DockerImageStore } from "./docker-image-store.ts";
import { ImageEngine } from "./images/testing/image-engine.ts";

let lab: ImageEngine;
beforeAll(async () => {
  lab = await ImageEngine.start();
});
afterAll(async () => {
  await lab[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await lab.clear();
});

const refused = (text: string): unknown =>
  expect.objectContaining({ code: "INVALID_IMAGE", message: expect.stringContaining(text) });

describe("names", () => {
  test("an id is treated as a name, and finds no image", async () => {
    const id = await lab.importImage("mine:1", "1");
    const store = lab.store("never");
    for (const name of [id, id.slice(7), id.slice(7, 19)]) {
      await expect(store.inspect(name)).rejects.toEqual(refused("is not present"));
      await expect(store.remove(name)).rejects.toEqual(refused("is not present"));
    }
    await store.inspect("mine:1");
  });

  test("host is not available, and the error says so", async () => {
    await expect(lab.store("missing").resolve("host")).rejects.toEqual(
      refused("which Docker sandboxes cannot use"),
    );
  });

  test.each([
    [["linux", "bash", "shell", "sandbox-runtime:base"], "ubuntu:22.04", "sandbox-runtime:base"],
    [["python", "sandbox-runtime:python"], "python:3.11-slim", "sandbox-runtime:python"],
    [["node", "sandbox-runtime:node"], "node:20-slim", "sandbox-runtime:node"],
  ])("%j mean %s, and %s if the engine has it", async (shortcuts, target, own) => {
    const never = lab.store("never");
    for (const name of shortcuts) {
      expect((await lab.store("missing").resolve(name)).reference).toBe(target);
      await expect(never.resolve(name)).rejects.toEqual(
        refused(`\`sandkasten image pull ${target}\` or \`docker pull ${target}\``),
      );
    }
    await lab.importImage(target, "public");
    for (const name of shortcuts) expect((await never.resolve(name)).reference).toBe(target);
    const id = await lab.importImage(own, "own");
    for (const name of shortcuts) {
      expect(await never.resolve(name)).toMatchObject({
        reference: own,
        requested: name,
        digest: id,
      });
      // Regardless of the policy: no registry has it.
      for (const policy of ["never", "missing", "always"] as const)
        expect(await lab.store(policy).ensure(own)).toMatchObject({ reference: own, digest: id });
    }
    expect((await never.resolve(target)).reference).toBe(target);
  });

  test("an image imported under the name of one of our images has that name", async () => {
    const store = lab.store("never");
    const archive = await lab.archive(tarOf([file("x", "x")]));
    expect((await store.importRootfs("sandbox-runtime:node", archive)).reference).toBe(
      "sandbox-runtime:node",
    );
    expect((await store.importRootfs("node", archive)).reference).toBe("node:20-slim");
    await store.remove("node");
    expect((await store.resolve("node")).reference).toBe("node:20-slim");
  });
});

describe("the allowlist", () => {
  test("applies to every method, and the error lists what is allowed", async () => {
    const store = lab.store("missing", { policy: { allowedImages: ["mine:*", "python"] } });
    await lab.importImage("mine:1", "1");
    await lab.importImage("other:1", "2");
    const archive = await lab.archive(Buffer.alloc(1024));
    const refusal = expect.objectContaining({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("Allowed images: mine:*, python."),
      details: { allowed_images: ["mine:*", "python"] },
    });
    for (const call of [
      () => store.resolve("other:1"),
      () => store.ensure("other:1"),
      () => store.pull("other:1"),
      () => store.remove("other:1"),
      () => store.importRootfs("other:1", archive),
      () => store.importOciArchive("other:1", archive),
      () => store.resolve("node"),
      () => store.resolve("x/mine:1"),
    ])
      await expect(call()).rejects.toEqual(refusal);
    expect((await store.resolve("mine:1")).reference).toBe("mine:1");
    expect((await store.resolve("python")).reference).toBe("python:3.11-slim");
    expect((await store.list()).map(({ reference }) => reference)).toEqual(["mine:1"]);
    expect(await lab.idOf("other:1")).toMatch(/^sha256:/);
  });

  test("allows our own image for a short name under either name, but not under a pinned one", async () => {
    await lab.importImage("sandbox-runtime:python", "own");
    const resolved = async (...allowedImages: string[]): Promise<string> =>
      (await lab.store("missing", { policy: { allowedImages } }).resolve("python")).reference;
    for (const entry of ["python", "python:3.11-slim", "sandbox-runtime:*"])
      expect(await resolved(entry)).toBe("sandbox-runtime:python");
    const pin = `python:3.11-slim@${sha256("pinned")}`;
    expect(await resolved(pin)).toBe(pin);
    await expect(resolved("node")).rejects.toEqual(refused("is not allowed"));
    await lab.clear();
    await expect(resolved("sandbox-runtime:*")).rejects.toEqual(
      refused("sandbox-runtime:python is not present"),
    );
  });

  test("an entry with a digest pins its name to that content, and allows no other", async () => {
    const name = `${lab.registry.address}/pinned/app`;
    const first = await lab.push("pinned/app:1", "first");
    await lab.push("pinned/app:1", "second");

    const pinned = `${name}:1@${first.digest}`;
    const store = lab.store("always", { policy: { allowedImages: [pinned] } });
    expect((await store.resolve(`${name}:1`)).reference).toBe(pinned);
    expect((await store.ensure(`${name}:1`)).digest).toBe(first.id);
    expect((await store.ensure(`${name}@${first.digest}`)).digest).toBe(first.id);
    await expect(store.resolve(`${name}:2`)).rejects.toEqual(refused("is not allowed"));
    await expect(store.ensure(`${name}:1@${sha256("other")}`)).rejects.toEqual(
      refused("is not allowed"),
    );
  });
});

describe("pins", () => {
  test("match by the registry's digest and by the engine's id only", async () => {
    const name = `${lab.registry.address}/pins/app`;
    const { digest, id } = await lab.push("pins/app:1", "content");
    const store = lab.store("missing");
    expect((await store.ensure(`${name}:1`)).digest).toBe(id);
    const never = lab.store("never");
    for (const pin of [digest, id])
      for (const reference of [`${name}@${pin}`, `${name}:1@${pin}`])
        expect(await never.ensure(reference)).toMatchObject({ reference, digest: id });

    await lab.importImage("other/app:1", "else");
    for (const wrong of [
      `${name}@${sha256("none")}`,
      `other/app@${id}`,
      `other/app@${digest}`,
      `${name}:2@${id}`,
    ])
      await expect(never.ensure(wrong)).rejects.toEqual(refused("is not present"));
    await expect(store.ensure(`${name}:1@${sha256("none")}`)).rejects.toEqual(
      refused("has no such image"),
    );
  });

  test("can be required for all pulls", async () => {
    const name = `${lab.registry.address}/strict/app`;
    const { digest } = await lab.push("strict/app:1", "content");
    const strict = lab.store("missing", { policy: { requireDigests: true } });
    const demand = refused(`Write ${name}:1@sha256:`);
    await expect(strict.ensure(`${name}:1`)).rejects.toEqual(demand);
    await expect(strict.pull(`${name}:1`)).rejects.toEqual(demand);
    await strict.ensure(`${name}@${digest}`);
    await lab.importImage("local:1", "not pulled");
    await strict.ensure("local:1");
  });

  test("of existing content are allowed by the name that has it", async () => {
    const id = await lab.importImage("mine:1", "1");
    const other = await lab.importImage("other:1", "2");
    const store = lab.store("never", { policy: { allowedImages: ["mine:1"] } });
    expect((await store.ensure(`mine:1@${id}`)).digest).toBe(id);
    await expect(store.ensure(`other:1@${other}`)).rejects.toEqual(refused("is not allowed"));
    await expect(store.ensure(`mine:1@${sha256("else")}`)).rejects.toEqual(
      refused("is not allowed"),
    );
  });
});

describe("list(), inspect() and remove()", () => {
  let store: DockerImageStore;
  beforeAll(() => {
    store = lab.store("missing");
  });

  test("return each name of an image, with its properties", async () => {
    const before = Date.now();
    const id = await lab.importImage("a:1", "1");
    await lab.docker.getImage("a:1").tag({ repo: "registry.example.com/team/b", tag: "2" });
    const { digest } = await lab.push("listed/app:1", "2");
    const pulled = `${lab.registry.address}/listed/app:1`;
    await store.pull(pulled);
    const pinned = `${lab.registry.address}/listed/app@${digest}`;
    const infos = await store.list();
    expect(infos.map(({ reference }) => reference).sort()).toEqual(
      [pulled, "a:1", "registry.example.com/team/b:2"].sort(),
    );
    const info = await store.inspect("a:1");
    expect(info).toEqual(infos.find(({ reference }) => reference === "a:1"));
    expect(info).toMatchObject({ digest: id, sizeBytes: 1, env: {} });
    expect(info.createdAtMs).toBeGreaterThanOrEqual(before);
    expect((await store.inspect(pulled)).source).toBe("registry");

    await lab.clear();
    await store.pull(pinned);
    expect((await store.list()).map(({ reference }) => reference)).toEqual([pinned]);
    await store.remove(pinned);
    expect(await store.list()).toEqual([]);
  });

  test("return the environment of an image", async () => {
    await lab.importImage("env:1", "1", "ENV A=1 B=two");
    expect((await store.inspect("env:1")).env).toEqual({ A: "1", B: "two" });
  });

  test("remove() removes one name, and refuses an image that a container uses", async () => {
    await lab.importImage("used:1", "1");
    await lab.docker.getImage("used:1").tag({ repo: "used", tag: "2" });
    await store.remove("used:2");
    await expect(store.inspect("used:2")).rejects.toEqual(refused("is not present"));
    {
      await using _container = await lab.createContainer("used:1");
      await expect(store.remove("used:1")).rejects.toMatchObject({
        code: "CONFLICT",
        message: expect.stringMatching(/used:1 is in use.*End the sessions/),
      });
    }
    await store.remove("used:1");
    await expect(store.remove("used:1")).rejects.toEqual(refused("is not present"));
  });
});

describe("collectGarbage()", () => {
  test("removes our images without a name and a sandbox, and no images of others", async () => {
    const store = lab.store("always");
    const name = `${lab.registry.address}/moving/app`;
    await lab.push("moving/app:1", "first");
    const first = await store.ensure(`${name}:1`);
    await lab.push("moving/app:1", "second");
    const second = await store.ensure(`${name}:1`);
    await lab.push("moving/app:1", "third");
    await store.ensure(`${name}:1`);
    // Someone builds, and builds again.
    const others = await lab.importImage("built:1", "1");
    await lab.importImage("built:1", "2");

    const collected = await store.collectGarbage(new Set([second.digest]));
    expect(collected.removed).toBe(1);
    expect(collected.freedBytes).toBeGreaterThan(0);
    await expect(lab.idOf(first.digest)).rejects.toMatchObject({ statusCode: 404 });
    for (const kept of [second.digest, others, `${name}:1`]) await lab.idOf(kept);

    {
      await using _container = await lab.createContainer(second.digest);
      expect((await store.collectGarbage(new Set())).removed).toBe(0);
    }
    expect((await store.collectGarbage(new Set())).removed).toBe(1);
    expect((await store.collectGarbage(new Set())).removed).toBe(0);
    // Another process did not pull it, and keeps it.
    await store.ensure(`${name}:1`);
    await lab.push("moving/app:1", "fourth");
    const next = lab.store("always");
    await next.ensure(`${name}:1`);
    expect((await next.collectGarbage(new Set())).removed).toBe(0);
  });

  test("removes a replaced root file system of ours, even after a restart", async () => {
    const archive = async (content: string): Promise<string> =>
      await lab.archive(tarOf([file("x", content)]));
    const { digest } = await lab.store("never").importRootfs("mine:1", await archive("1"));
    await lab.store("never").importRootfs("mine:1", await archive("2"));
    expect((await lab.store("never").collectGarbage(new Set())).removed).toBe(1);
    await expect(lab.idOf(digest)).rejects.toMatchObject({ statusCode: 404 });
    await lab.idOf("mine:1");
  });

  test("keeps images that are named by their digest", async () => {
    const store = lab.store("missing");
    const name = `${lab.registry.address}/kept/app`;
    const { digest } = await lab.push("kept/app:1", "content");
    await store.ensure(`${name}:1`);
    const pin = `${name}@${digest}`;
    await store.ensure(pin);
    await lab.push("kept/app:1", "else");
    await store.pull(`${name}:1`);
    expect((await store.collectGarbage(new Set())).removed).toBe(0);
    await store.inspect(pin);
  });
});

test("every method reports an unreachable engine", async () => {
  const archive = await lab.archive(tarOf([file("x", "x")]));
  const image = await lab.archive(ociArchive([{ bytes: tarOf([file("x", "x")]) }]).archive);
  for (const host of ["unix:///nonexistent/docker.sock", "tcp://127.0.0.1:1"]) {
    const store = lab.store("missing", { connection: { host } });
    for (const call of [
      () => lab.store("never", { connection: { host } }).resolve("mine:1"),
      () => store.resolve("python"),
      () => store.ensure("mine:1"),
      () => store.pull("mine:1"),
      () => store.list(),
      () => store.inspect("mine:1"),
      () => store.remove("mine:1"),
      () => store.collectGarbage(new Set()),
      () => store.importRootfs("mine:1", archive),
      () => store.importOciArchive("mine:1", image),
    ])
      await expect(call()).rejects.toMatchObject({
        code: "ENGINE_UNREACHABLE",
        status: 503,
        retryable: true,
        message: expect.stringMatching(/does not respond.*(ENOENT|ECONNREFUSED)/),
      });
  }
});

describe("owners other than the administrator", () => {
  test("use existing images, and change nothing that others use", async () => {
    const id = await lab.importImage("shared:1", "administrator");
    const store = lab.store("never");
    const images = store.of();
    const evil = await lab.archive(tarOf([file("content", "bob")]));
    for (const refusal of [
      images.importRootfs("shared:1", evil),
      images.importRootfs("bobs-own:1", evil),
      images.importOciArchive("shared:1", evil),
      images.remove("shared:1"),
    ])
      await expect(refusal).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    await expect(images.remove("absent:1")).rejects.toEqual(refused("is not present"));
    expect(await lab.idOf("shared:1")).toBe(id);
    expect(await images.list()).toMatchObject([{ reference: "shared:1", shared: true }]);
    expect(await images.resolve("shared:1")).toMatchObject({ digest: id });
  });

  test("have the engine pull missing images, and move no existing tag", async () => {
    const name = `${lab.registry.address}/tenants/app:1`;
    await lab.push("tenants/app:1", "first");
    const store = lab.store("never");
    const first = await store.of().pull(name);
    await lab.push("tenants/app:1", "second");
    expect((await store.of().pull(name)).digest).toBe(first.digest);
    expect((await store.pull(name)).digest).not.toBe(first.digest);
  });
});
