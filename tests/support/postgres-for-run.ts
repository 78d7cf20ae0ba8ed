/** One Postgres cluster for all tests of a run; each test has a separate database in it. */
import type { TestProject } from "vitest/node";
import { PostgresCluster } from "./postgres-cluster.ts";
import type {} from "./postgres-under-test.ts";

/** Vitest calls the returned function when the run is over. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const cluster = await PostgresCluster.start();
  project.provide("postgresUrl", cluster.url);
  return () => cluster[Symbol.asyncDispose]();
}
