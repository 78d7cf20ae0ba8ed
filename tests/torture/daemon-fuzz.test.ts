/** Requests generated from the OpenAPI document, sent to a real daemon with real sandboxes. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { servedDocument } from "../../packages/daemon/src/surfaces/native/openapi/generate-api-page.ts";
import { apiRequests } from "../support/api-requests.ts";
import type { ApiDocument, ApiOperation, KnownValues } from "../support/api-requests.ts";
import { rounds } from "../support/rounds.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { TestDaemon } from "../support/test-daemon.ts";

/** Requests to each operation. On gVisor each takes several times as long. */
const RUNS = rounds({ slice: 12, torture: runtimeUnderTest() === "runsc" ? 60 : 400 });
/** Waits last as long as the client listens. */
const PATIENCE_MS = 2_000;
/** Every request takes up to this timeout, and so does creating a session for it. */
const TIMEOUT_MS = (RUNS + 30) * PATIENCE_MS;

const document = (await servedDocument()) as unknown as ApiDocument;

let daemon: TestDaemon;
let session: string;
let exec: string;
beforeAll(async () => {
  daemon = await TestDaemon.start({
    settings: { QUOTAS_MAX_SESSIONS: "12", DEFAULTS_MAX_EXEC_TIMEOUT_MS: "1000" },
  });
});
afterAll(async () => await daemon[Symbol.asyncDispose]());

/** Creates a session, files and a command: earlier requests may have ended the previous ones. */
async function renew(): Promise<void> {
  const { body: open } = await daemon.call<{ id: string }[]>("GET", "/v1/sessions?limit=1000");
  for (const { id } of open) await daemon.call("DELETE", `/v1/sessions/${id}`);
  session = await daemon.open({ workspace_id: "fuzzed" });
  await daemon.exec(session, "mkdir -p d/e; touch x; ln -sf link link");
  const { body } = await daemon.call<{ exec_id: string }>("POST", `/v1/sessions/${session}/execs`, {
    cmd: ["cat"],
    stdin_open: true,
  });
  exec = body.exec_id;
}

const known: KnownValues = {
  inPath: (path, name) => {
    if (name === "eid") return [exec];
    if (name !== "id") return ["main", "build"];
    return path.includes("/workspaces/") ? ["fuzzed", "sandkasten-ws-fuzzed", "none"] : [session];
  },
  byField: {
    path: ["x", "/workspace/x", "/workspace", "d/e", "/tmp", "/etc/passwd", "link"],
    from: ["x", "d", "/workspace"],
    to: ["y", "d/e/f", "/tmp/moved", "/dev/shm"],
    cmd: ["true", "echo hi", "exit 3", ["true"], ["no-such-program"], "ln -sf link link"],
    image: ["host", "nothing-like-it"],
    content_base64: ["", "eA==", "!"],
    signal: ["TERM", 0, 9, "KILL", "NOPE"],
    limit: ["1", 1],
    ttl_seconds: [0, 1, 600],
    workspace_id: ["fuzzed", "ab"],
    reference: ["host", "registry.invalid/a:b", "a/../b"],
  },
};

/** Requests that must not be repeated on a machine. */
const LEFT_OUT: ReadonlySet<string> = new Set(["get /v1/sessions/{id}/pty"]);

/** A response's status, or 0 for one that took too long. */
async function statusOf(
  method: string,
  { path, headers, body }: { path: string; headers: object; body?: string | Buffer },
): Promise<{ readonly status: number; readonly text: string }> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  try {
    const answer = await daemon.fetch(path, {
      method,
      headers: { ...headers },
      ...(body !== undefined && { body }),
      signal,
    });
    // An event stream does not end, and has already sent everything requested.
    if (answer.headers.get("content-type")?.startsWith("text/event-stream") === true) {
      await answer.body?.cancel();
      return { status: answer.status, text: "" };
    }
    // A download that fails half-way can only be cut off.
    return { status: answer.status, text: await answer.text().catch(() => "(cut off)") };
  } catch (error) {
    if (signal.aborted) return { status: 0, text: "" };
    throw error;
  }
}

async function fuzz(path: string, method: string, operation: ApiOperation): Promise<void> {
  await renew();
  const allowed = new Set(Object.keys(operation.responses).map(Number));
  await fc.assert(
    fc.asyncProperty(apiRequests(document, path, operation, known), async (request) => {
      const { status, text } = await statusOf(method.toUpperCase(), request);
      const isDocumented = status === 0 || allowed.has(status) || text.includes("ROUTE_NOT_FOUND");
      if (status === 500 || !isDocumented) throw new Error(`answered ${status}: ${text}`);
    }),
    { numRuns: RUNS, seed: inject("seed"), endOnFailure: true },
  );
  expect((await daemon.call("GET", "/healthz")).status).toBe(200);
}

describe("no request makes the daemon fail, and every response is documented", () => {
  const all = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ method, path, operation })),
  );
  test.each(all.filter(({ method, path }) => !LEFT_OUT.has(`${method} ${path}`)))(
    "$method $path",
    { timeout: TIMEOUT_MS },
    async ({ method, path, operation }) => {
      await fuzz(path, method, operation);
      expect(daemon.log).not.toContain('"level":50');
    },
  );
});
