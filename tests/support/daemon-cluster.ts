/** Three daemons on one Postgres database and one Docker engine, with a proxy before the engine. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { DOCKER_IMAGES, dockerUnderTest } from "./docker-under-test.ts";
import { EngineProxy } from "./engine-proxy.ts";
import { freePort } from "./free-port.ts";
import { PostgresCluster } from "./postgres-cluster.ts";
import { TestDaemon } from "./test-daemon.ts";

/** How long a test waits for something that must happen. */
const PATIENCE_MS = 90_000;
/** For `vi.waitUntil`. */
export const LONG = { timeout: PATIENCE_MS, interval: 100 };
export const KEY = "sk-several-daemons";
export const OTHER_KEY = "sk-somebody-else";

export class DaemonCluster implements AsyncDisposable {
  readonly engine: EngineProxy;
  readonly all: [TestDaemon, TestDaemon, TestDaemon];
  readonly #postgres: PostgresCluster;
  readonly #directory: string;
  readonly #url: string;

  private constructor(
    engine: EngineProxy,
    all: [TestDaemon, TestDaemon, TestDaemon],
    postgres: PostgresCluster,
    directory: string,
    url: string,
  ) {
    this.engine = engine;
    this.all = all;
    this.#postgres = postgres;
    this.#directory = directory;
    this.#url = url;
  }

  static async start(): Promise<DaemonCluster> {
    const postgres = await PostgresCluster.start();
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-engine-"));
    const socket = dockerUnderTest().replace("unix://", "");
    const engine = await EngineProxy.start(join(directory, "docker.sock"), socket);
    const url = await postgres.createDatabase();
    const start = async (): Promise<TestDaemon> => await startDaemon(engine, url);
    const all: [TestDaemon, TestDaemon, TestDaemon] = [await start(), await start(), await start()];
    return new DaemonCluster(engine, all, postgres, directory, url);
  }

  async query(sql: string): Promise<readonly Record<string, unknown>[]> {
    const client = new pg.Client(this.#url);
    await client.connect();
    try {
      return (await client.query(sql)).rows as Record<string, unknown>[];
    } finally {
      await client.end();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const daemon of this.all) await daemon.kill();
    for (const daemon of this.all) await daemon[Symbol.asyncDispose]();
    await this.#postgres[Symbol.asyncDispose]();
    await this.engine[Symbol.asyncDispose]();
    await rm(this.#directory, { recursive: true, force: true });
  }
}

async function startDaemon(engine: EngineProxy, url: string): Promise<TestDaemon> {
  const address = `127.0.0.1:${await freePort()}`;
  return await TestDaemon.start({
    settings: {
      BACKEND: "docker",
      DOCKER_HOST: engine.host,
      DEFAULT_IMAGE: DOCKER_IMAGES.busybox,
      API_KEY: KEY,
      API_KEYS: `other=${OTHER_KEY}`,
      LISTEN: address,
      CLUSTER_ADDRESS: `http://${address}`,
      CLUSTER_SECRET: "shared-by-all-three",
      DATABASE_URL: url,
    },
  });
}

/** Asks one daemon after the other until one responds with something other than "try again". */
export async function ask(
  from: readonly TestDaemon[],
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Record<string, unknown>> {
  const deadline = Date.now() + PATIENCE_MS;
  for (let turn = 0; ; turn++) {
    const daemon = from[turn % from.length];
    const answer = await daemon?.call(method, path, body, headers).catch(() => undefined);
    if (answer !== undefined && answer.status < 500) return answer.body;
    if (Date.now() > deadline)
      throw new Error(`no answer to ${method} ${path}: ${JSON.stringify(answer?.body)}`);
    await sleep(100);
  }
}
