/**
 * Prints `docs/reference/api.md`, generated from the OpenAPI document that the daemon serves:
 *
 *     node packages/daemon/src/surfaces/native/openapi/generate-api-page.ts > docs/reference/api.md
 *
 * A test fails if the page is out of date.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { apiPage } from "./api-page/api-page.ts";
import { buildHttpApp } from "../../build-http-app.ts";
import type { OpenApiDocument } from "./openapi.ts";

const KEY = "a-key-for-one-request";
/** Placeholder for services: here, routes are only described, never called. */
const uncalled = undefined as never;

/** The document as a client of the daemon gets it. */
export async function servedDocument(): Promise<OpenApiDocument> {
  const uploadDir = await mkdtemp(join(tmpdir(), "sandkasten-api-page-"));
  try {
    const app = await buildHttpApp({
      services: {
        events: uncalled,
        sessions: uncalled,
        execs: uncalled,
        shells: uncalled,
        files: uncalled,
        workspaces: uncalled,
        commits: uncalled,
        ports: uncalled,
        networks: uncalled,
        imagesOf: uncalled,
        collectImages: uncalled,
        ready: uncalled,
        counts: uncalled,
        servedAt: uncalled,
        storage: uncalled,
      },
      storedKeys: { onEnd: () => undefined, find: () => undefined } as never,
      callers: [
        {
          key: KEY,
          caller: {
            owner: "reader",
            isAdmin: false,
            maxSessions: 0,
            maxRunningExecs: 0,
            maxWorkspaces: 0,
            maxImageBytes: 0,
          },
        },
      ],
      log: pino({ level: "silent" }),
      version: "",
      backends: [""],
      limits: { maxBodyBytes: 0, maxUploadBytes: 0 },
      allowedHosts: [],
      preview: { key: new Uint8Array(32), scheme: "http", maxSeconds: 1 },
      allowedOrigins: [],
      uploadDir,
    });
    try {
      const url = await app.listen({ host: "127.0.0.1", port: 0 });
      const headers = { authorization: `Bearer ${KEY}` };
      const answer = await fetch(`${url}/openapi.json`, { headers });
      if (!answer.ok) throw new Error(`cannot get the document: ${await answer.text()}`);
      return (await answer.json()) as OpenApiDocument;
    } finally {
      await app.close();
    }
  } finally {
    await rm(uploadDir, { recursive: true, force: true });
  }
}

if (import.meta.main) process.stdout.write(apiPage(await servedDocument()));
