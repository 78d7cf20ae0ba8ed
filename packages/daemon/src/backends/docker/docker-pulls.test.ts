/** Pulling from a real registry through a real engine. */
import { chmod, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { TestCli } from "../../../../cli/src/testing/test-host.ts";
import { ALICES_KEY, HttpFixture } from "../../surfaces/testing/http-fixture.ts";
import { startRegistry } from "../../images/testing/registry.ts";
import type { Registry } from "../../images/testing/registry.ts";
import type { ImageProgress } from "../../ports/image-store.ts";
import { startEngineFront } from "./images/testing/engine-front.ts";
import { ImageEngine } from "./images/testing/image-engine.ts";
import { startFront } from "./images/testing/registry-front.ts";
import type { RegistryFront } from "./images/testing/registry-front.ts";

const LARGE = { largeBytes: 2_000_000 };

let lab: ImageEngine;
/** The registry, behind a proxy that records and holds requests. */
let front: RegistryFront;
let brokenFront: RegistryFront;
let broken: Promise<unknown>;
beforeAll(async () => {
  lab = await ImageEngine.start();
  // Started now and checked at the end, because the engine waits five seconds before it retries.
  await lab.push("broken/app:1", "broken/app", LARGE);
  brokenFront = await startFront(lab.registry.address);
  const hold = brokenFront.hold();
  broken = lab
    .store("missing")
    .ensure(`${brokenFront.address}/broken/app:1`)
    .catch((error: unknown) => error);
  await hold.reached;
  hold.cut();
});
afterAll(async () => {
  await broken;
  await brokenFront[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await lab.clear();
  front = await startFront(lab.registry.address);
});
afterEach(async () => {
  await front[Symbol.asyncDispose]();
});

const asked = (what: RegExp): number =>
  front.requests.filter((request) => what.test(request)).length;
const manifestsAsked = (): number => asked(/^(GET|HEAD) .*\/manifests\//);
const blobsAsked = (): number => asked(/^GET .*\/blobs\//);

describe("the pull policy", () => {
  test("never: uses local images and refuses others, without contacting a registry", async () => {
    const reference = `${front.address}/policy/never:1`;
    const { id } = await lab.push("policy/never:1", "1");
    const store = lab.store("never");
    const absent = expect.objectContaining({
      code: "INVALID_IMAGE",
      message: expect.stringContaining(`sandkasten image pull ${reference}`),
    });
    await expect(store.resolve(reference)).rejects.toEqual(absent);
    await expect(store.ensure(reference)).rejects.toEqual(absent);
    expect(front.requests).toEqual([]);
    // An explicit pull is always allowed.
    await store.pull(reference);
    const requests = front.requests.length;
    expect((await store.ensure(reference)).digest).toBe(id);
    expect(front.requests.length).toBe(requests);
  });

  test("missing: pulls a missing image once, and does not follow a tag that moves", async () => {
    const reference = `${front.address}/policy/missing:1`;
    const { id } = await lab.push("policy/missing:1", "1");
    const store = lab.store("missing");
    expect(await store.resolve(reference)).toEqual({
      reference,
      requested: reference,
      isSubstitute: false,
    });
    const info = await store.ensure(reference);
    expect(info).toMatchObject({ reference, digest: id, source: "registry" });
    await lab.push("policy/missing:1", "2");
    const requests = front.requests.length;
    expect(await store.ensure(reference)).toEqual(info);
    expect(front.requests.length).toBe(requests);
  });

  test("always: checks each time, and follows a tag that moves", async () => {
    const reference = `${front.address}/policy/always:1`;
    const first = await lab.push("policy/always:1", "1");
    const store = lab.store("always");
    expect((await store.ensure(reference)).digest).toBe(first.id);
    const [manifests, blobs] = [manifestsAsked(), blobsAsked()];
    expect((await store.ensure(reference)).digest).toBe(first.id);
    expect(manifestsAsked()).toBeGreaterThan(manifests);
    expect(blobsAsked()).toBe(blobs);
    const second = await lab.push("policy/always:1", "2");
    expect((await store.ensure(reference)).digest).toBe(second.id);
    expect((await store.inspect(reference)).digest).toBe(second.id);
  });

  test("always: for an image that only the engine has, suggests another policy", async () => {
    await lab.importImage("local-only:1", "1");
    await lab.docker
      .getImage("local-only:1")
      .tag({ repo: `${front.address}/local/only`, tag: "1" });
    await expect(lab.store("always").ensure(`${front.address}/local/only:1`)).rejects.toMatchObject(
      {
        code: "INVALID_IMAGE",
        message: expect.stringMatching(
          /has no such image.*It is present; the pull policy `missing`/,
        ),
      },
    );
  });
});

describe("concurrent pulls", () => {
  test("sessions that need the same image wait for a single download", async () => {
    const reference = `${front.address}/shared/app:1`;
    const { id } = await lab.push("shared/app:1", "shared/app", LARGE);
    const store = lab.store("missing");
    const hold = front.hold();
    const waiting = [1, 2, 3, 4].map(async () => await store.ensure(reference));
    await hold.reached;
    waiting.push(store.ensure(reference));
    hold.release();
    for (const { digest } of await Promise.all(waiting)) expect(digest).toBe(id);
    expect(asked(/^GET .*\/manifests\//)).toBe(1);
    // The configuration and two layers.
    expect(blobsAsked()).toBe(3);
  });

  test("continues while a caller waits, and is aborted when the last one leaves", async () => {
    const reference = `${front.address}/shared/left:1`;
    const { id } = await lab.push("shared/left:1", "shared/left", LARGE);
    const store = lab.store("missing");
    const hold = front.hold();
    const [first, second] = [new AbortController(), new AbortController()];
    const told: ImageProgress[] = [];
    const left = [
      store.ensure(reference, { signal: first.signal, onProgress: (news) => told.push(news) }),
      store.ensure(reference, { signal: second.signal }),
    ].map(async (waiting) => await expect(waiting).rejects.toMatchObject({ code: "CANCELLED" }));
    await hold.reached;
    first.abort();
    await left[0];
    const toldWhenLeft = told.length;
    second.abort();
    await left[1];
    // The engine has disconnected from the registry, and no caller gets further events.
    await hold.abandoned;
    hold.release();
    expect((await store.list()).length).toBe(0);
    expect((await store.ensure(reference)).digest).toBe(id);
    expect(told.length).toBe(toldWhenLeft);
    const gone = AbortSignal.abort();
    await expect(store.ensure(`${reference}0`, { signal: gone })).rejects.toMatchObject({
      code: "CANCELLED",
    });
  });

  test("a caller who stays gets the image even if the caller who started the pull has left", async () => {
    const reference = `${front.address}/shared/stays:1`;
    const { id } = await lab.push("shared/stays:1", "shared/stays", LARGE);
    const store = lab.store("missing");
    const hold = front.hold();
    const leaving = new AbortController();
    const left = store.ensure(reference, { signal: leaving.signal });
    const staying = store.ensure(reference);
    await hold.reached;
    leaving.abort();
    await expect(left).rejects.toMatchObject({ code: "CANCELLED" });
    hold.release();
    expect((await staying).digest).toBe(id);
    expect(asked(/^GET .*\/manifests\//)).toBe(1);
  });
});

test("progress never goes backwards, and ends with the total", async () => {
  await lab.push("progress/app:1", "progress/app", { largeBytes: 5_000_000 });
  const store = lab.store("missing");
  const news: ImageProgress[] = [];
  const hold = front.hold();
  const pulled = store.pull(`${front.address}/progress/app:1`, (progress) => news.push(progress));
  await hold.reached;
  hold.release();
  await pulled;
  const phases = news.map(({ phase }) => phase);
  expect(phases.toSorted()).toEqual(phases);
  expect(new Set(phases)).toEqual(new Set(["download", "unpack"]));
  for (const phase of ["download", "unpack"] as const) {
    const done = news.filter((progress) => progress.phase === phase).map((each) => each.done);
    expect(done.toSorted((a, b) => a - b)).toEqual(done);
  }
  for (const { done, total } of news) expect(done).toBeLessThanOrEqual(total ?? Infinity);
  const totals = news.flatMap(({ total }) => total ?? []);
  expect(new Set(totals).size).toBe(1);
  expect(totals[0]).toBeGreaterThan(5_000_000);
  expect(news.at(-1)).toEqual({ phase: "unpack", done: totals[0], total: totals[0] });
  expect(news.some(({ phase, done }) => phase === "download" && done > 0)).toBe(true);
});

test("the command line shows a progress bar, and a registry's refusal", async () => {
  const reference = `${front.address}/shown/app:1`;
  const { id } = await lab.push("shown/app:1", "shown/app", LARGE);
  await using daemon = await HttpFixture.start({ replace: { images: lab.store("missing") } });
  const env = { SANDKASTEN_URL: daemon.url, SANDKASTEN_API_KEY: ALICES_KEY };
  const start = (name: string): TestCli =>
    new TestCli(["image", "pull", name], { env, columns: 100 });
  const hold = front.hold();
  const cli = start(reference);
  await cli.seen(/download \S+ \S*█\S* .*% .* of /, "stderr");
  hold.release();
  const { code, stdout } = await cli.done;
  expect([code, stdout]).toEqual([0, `${reference}\t${id}\n`]);
  expect(await start(`${front.address}/no/such:1`).done).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("has no such image"),
  });
});

describe("credentials", () => {
  const password = "right-password";
  const user = `alice:${password}`;
  let registry: Registry;
  let reference: string;
  let id: string;
  beforeAll(async () => {
    registry = await startRegistry(
      "alice:$2b$04$abcdefghijklmnopqrstuuS80hwFD6gSIL20SCUGvmL7S939BjOHW",
    );
    reference = `${registry.address}/private/app:1`;
    const address = registry.address;
    ({ id } = await lab.push("private/app:1", "secret", { registry: address, user }));
  });
  afterAll(async () => {
    await registry[Symbol.asyncDispose]();
  });

  async function configured(config: object): Promise<string> {
    const directory = await mkdtemp(join(lab.directory, "config-"));
    await writeFile(join(directory, "config.json"), JSON.stringify(config));
    return directory;
  }

  const encoded = (text: string): string => Buffer.from(text).toString("base64");

  test("are read from the docker config directory as soon as they exist", async () => {
    const dockerConfigDir = await configured({});
    const store = lab.store("missing", { dockerConfigDir });
    await expect(store.ensure(reference)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringMatching(/cannot be pulled: .*refused access.*credentials/),
    });
    const auths = { [registry.address]: { auth: encoded(user) } };
    await writeFile(join(dockerConfigDir, "config.json"), JSON.stringify({ auths }));
    expect((await store.ensure(reference)).digest).toBe(id);
  });

  test("that are wrong are refused, and never shown", async () => {
    const wrong = "wrong-password";
    const dockerConfigDir = await configured({
      auths: { [`http://${registry.address}/v2/`]: { auth: encoded(`alice:${wrong}`) } },
    });
    const failure: unknown = await lab
      .store("missing", { dockerConfigDir })
      .ensure(reference)
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "INVALID_IMAGE" });
    const shown = JSON.stringify(failure, Object.getOwnPropertyNames(failure));
    expect(shown).toContain("docker login");
    expect(shown).not.toContain(wrong);
    expect(shown).not.toContain(encoded(`alice:${wrong}`));
  });

  test("are requested from a credential helper", async () => {
    const bin = join(lab.directory, "bin");
    await mkdir(bin);
    const helper = join(bin, "docker-credential-vault");
    const script = `#!/bin/sh
[ "$1" = get ] || exit 2
read -r server
[ "$server" = "${registry.address}" ] || { echo "credentials not found in native keychain"; exit 1; }
printf '{"ServerURL":"%s","Username":"alice","Secret":"%s"}' "$server" "$VAULT_SECRET"
`;
    await writeFile(helper, script);
    await chmod(helper, 0o755);
    const helperEnv = { PATH: `${bin}:/usr/bin:/bin`, VAULT_SECRET: password };
    const dockerConfigDir = await configured({ credHelpers: { [registry.address]: "vault" } });
    const store = lab.store("missing", { dockerConfigDir, helperEnv });
    expect((await store.ensure(reference)).digest).toBe(id);
    // It has none for this registry, which is public.
    const credsStore = await configured({ credsStore: "vault" });
    await lab.push("free/app:1", "1");
    await lab
      .store("missing", { dockerConfigDir: credsStore, helperEnv })
      .ensure(`${front.address}/free/app:1`);
  });
});

describe("failures", () => {
  test("an unreachable registry is reported as unreachable", async () => {
    for (const registry of ["127.0.0.1:1", "registry.invalid"])
      await expect(lab.store("missing").ensure(`${registry}/app:1`)).rejects.toMatchObject({
        code: "REGISTRY_UNREACHABLE",
        status: 503,
      });
  });

  test("an image that the registry does not have is the caller's mistake", async () => {
    await expect(lab.store("missing").ensure(`${front.address}/no/such:1`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("has no such image"),
    });
  });

  test.each(["broken", "clean"] as const)(
    "an engine whose response ends early (%s) has pulled nothing",
    async (ending) => {
      await lab.push(`early/${ending}:1`, ending, LARGE);
      const socket = join(lab.directory, `${ending}.sock`);
      await using engine = await startEngineFront(
        lab.engine.host.replace("unix://", ""),
        socket,
        ending,
      );
      const store = lab.store("missing", { connection: { host: engine.host } });
      const hold = front.hold();
      await expect(store.ensure(`${front.address}/early/${ending}:1`)).rejects.toMatchObject({
        code: "ENGINE_UNREACHABLE",
        message: expect.stringContaining("pulling an image"),
      });
      hold.release();
    },
  );

  test("an image that is too large is not downloaded completely", async () => {
    await lab.push("large/app:1", "large/app", LARGE);
    const store = lab.store("missing", { policy: { limits: { archiveBytes: 1_000_000 } } });
    const hold = front.hold();
    await expect(store.ensure(`${front.address}/large/app:1`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("the limit is 1000000"),
    });
    await hold.abandoned;
    hold.release();
    expect(await store.list()).toEqual([]);
  });

  test("a pull that takes too long is aborted", async () => {
    await lab.push("slow/app:1", "slow/app", LARGE);
    const store = lab.store("missing", { policy: { pullTimeoutMs: 500 } });
    const hold = front.hold();
    await expect(store.ensure(`${front.address}/slow/app:1`)).rejects.toMatchObject({
      code: "REGISTRY_UNREACHABLE",
      message: expect.stringContaining("longer than 0.5 seconds"),
    });
    hold.release();
  });

  test("a registry that stops in the middle of a layer is reported, and the pull can be retried", async () => {
    expect(await broken).toMatchObject({
      code: "REGISTRY_UNREACHABLE",
      retryable: true,
      message: expect.stringMatching(/broken\/app:1 cannot be pulled: .*Try again/),
    });
    const store = lab.store("missing");
    expect(await store.list()).toEqual([]);
    const direct = `${lab.registry.address}/broken/app:1`;
    expect((await store.ensure(direct)).reference).toBe(direct);
  });
});
