/** Engines that are reached over TLS: a complete sandbox, and the messages for wrong certificates. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeCertificates, tlsEngineArgs } from "../../../../../tests/support/certificates.ts";
import type { Certificates } from "../../../../../tests/support/certificates.ts";
import { DockerEngine } from "../../../../../tests/support/docker-engine.ts";
import { DOCKER_IMAGES } from "../../../../../tests/support/docker-under-test.ts";
import { freePort } from "../../../../../tests/support/free-port.ts";
import { TestDaemon } from "../../../../../tests/support/test-daemon.ts";
import { Engine } from "./engine.ts";

let directory: string;
let certificates: Certificates;
let others: Certificates;
let engine: DockerEngine;
let host: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  certificates = await makeCertificates(join(directory, "own"));
  others = await makeCertificates(join(directory, "others"));
  const port = await freePort();
  host = `tcp://127.0.0.1:${port}`;
  engine = await DockerEngine.start(join(directory, "e"), {
    args: tlsEngineArgs(certificates, port),
  });
  await engine.importSmallImage(DOCKER_IMAGES.busybox, "busybox");
});
afterAll(async () => {
  await engine[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const settings = (certPath: string): Readonly<Record<string, string>> => ({
  BACKEND: "docker",
  DOCKER_HOST: host,
  DOCKER_CERT_PATH: certPath,
  DEFAULT_IMAGE: DOCKER_IMAGES.busybox,
});

test("a daemon has complete sandboxes on an engine behind TLS, and leaves nothing there", async () => {
  await using daemon = await TestDaemon.start({ settings: settings(certificates.directory) });
  const id = await daemon.open();
  await daemon.exec(id, "cd /tmp; KEPT=variable");
  const bytes = Buffer.alloc(3_000_000, 7);
  const file = `/v1/sessions/${id}/fs/file?path=large`;
  expect((await daemon.fetch(file, { method: "PUT", body: bytes })).status).toBe(200);
  const back = Buffer.from(await (await daemon.fetch(file)).arrayBuffer());
  expect(back.equals(bytes)).toBe(true);
  expect(await daemon.exec(id, 'echo "$KEPT in $PWD"; wc -c < /workspace/large')).toMatchObject({
    exit_code: 0,
    output: "variable in /tmp\n3000000\n",
  });
  // A new connection finds the same shell.
  await daemon.kill();
  await daemon.run();
  expect(await daemon.exec(id, "echo $KEPT")).toMatchObject({ output: "variable\n" });
  expect(await daemon.call("DELETE", `/v1/sessions/${id}`)).toMatchObject({ status: 200 });
  await daemon.kill("SIGTERM");
  await engine.assertNothingLeft();
});

test("a daemon with certificates of another authority says so, and works once they are correct", async () => {
  await using daemon = await TestDaemon.start({ settings: settings(certificates.directory) });
  await daemon.kill("SIGTERM");
  await daemon.run(settings(others.directory));
  expect(await daemon.call("POST", "/v1/sessions", {})).toMatchObject({
    status: 503,
    body: {
      error_code: "ENGINE_UNREACHABLE",
      message: expect.stringContaining("docker.cert_path") as string,
    },
  });
  await daemon.kill("SIGTERM");
  await daemon.run();
  const id = await daemon.open();
  expect(await daemon.exec(id, "echo works")).toMatchObject({ output: "works\n" });
  expect(await daemon.call("DELETE", `/v1/sessions/${id}`)).toMatchObject({ status: 200 });
});

describe("the error", () => {
  const failure = async (address: string, tls?: Omit<Certificates, "directory">): Promise<Error> =>
    await new Engine({ host: address, ...(tls !== undefined && { tls }) }).facts().then(
      () => new Error("it was reached"),
      (error: Error) => error,
    );
  const aboutTls = (reason: string | RegExp) => ({
    code: "ENGINE_UNREACHABLE",
    message: expect.stringMatching(
      new RegExp(
        `TLS.*${typeof reason === "string" ? reason : reason.source}.*docker\\.cert_path`,
        "u",
      ),
    ) as string,
  });

  test("says that the engine's authority is not the expected one", async () => {
    expect(await failure(host, { ...certificates, ca: others.ca })).toMatchObject(
      aboutTls(/SELF_SIGNED|UNABLE_TO_VERIFY/u),
    );
  });

  test("says that the engine refuses the client's certificate", async () => {
    expect(await failure(host, { ...others, ca: certificates.ca })).toMatchObject(
      aboutTls(/ALERT/u),
    );
  });

  test("says that the engine requires a certificate and there is none", async () => {
    const nobody = { ...certificates, cert: "", key: "" };
    expect(await failure(host, nobody)).toMatchObject(aboutTls(/ALERT/u));
  });

  test("says that the engine's name is not in its certificate", async () => {
    const elsewhere = host.replace("127.0.0.1", "localhost");
    expect(await failure(elsewhere, certificates)).toMatchObject(
      aboutTls("ERR_TLS_CERT_ALTNAME_INVALID"),
    );
  });

  test("says that the engine's certificate has expired", async () => {
    const expired = await makeCertificates(join(directory, "expired"), { serverExpires: true });
    const port = await freePort();
    const args = tlsEngineArgs(expired, port);
    await using _old = await DockerEngine.start(join(directory, "old"), { args });
    expect(await failure(`tcp://127.0.0.1:${port}`, expired)).toMatchObject(
      aboutTls("CERT_HAS_EXPIRED"),
    );
  });

  test("says that the engine requires TLS", async () => {
    expect(await failure(host)).toMatchObject({
      code: "ENGINE_UNREACHABLE",
      message: expect.stringMatching(/requires TLS.*docker\.cert_path/u) as string,
    });
  });
});
