/** Registers all routes, each in the scope that reads bodies as it needs. */
import websocket from "@fastify/websocket";
import { leaveBodiesUnread } from "../../http/bodies/byte-body.ts";
import type { App } from "../../http/app.ts";
import type { NativeContext } from "../context.ts";
import { PTY_SUBPROTOCOL } from "../../http/admission/credentials.ts";
import { failureForLog } from "../../../failure-for-log.ts";
import { fileSpaces, placePaths } from "./files/file-space.ts";
import { archiveDownloadRoutes, archiveUploadRoutes } from "./files/archives.ts";
import { documentRoutes, healthRoutes, metricsRoutes, versionRoutes } from "./daemon.ts";
import { eventRoutes } from "./events.ts";
import { execStreamRoutes } from "./execs/exec-streams.ts";
import { execRoutes } from "./execs/execs.ts";
import { downloadRoutes, fileUploadRoutes } from "./files/file-content.ts";
import { fileRoutes } from "./files/files.ts";
import { commitRoutes } from "./images/commit.ts";
import { imageImportRoutes } from "./images/image-import.ts";
import { imageRoutes } from "./images/images.ts";
import { keyRoutes } from "./keys.ts";
import { networkRoutes } from "./networks.ts";
import { portConnectionRoutes } from "./ports/port-connections.ts";
import { portRoutes } from "./ports/ports.ts";
import { knowAllMethods, previewRoutes } from "./ports/previews.ts";
import { ptyRoutes } from "./execs/pty.ts";
import { sessionRoutes } from "./sessions.ts";
import { shellRoutes } from "./shells.ts";
import { startedExecRoutes } from "./execs/started-execs.ts";
import { uploadRoutes } from "./files/uploads.ts";
import { watchRoutes } from "./files/watch.ts";
import { workspaceRoutes } from "./workspaces.ts";

const MAX_MESSAGE_BYTES = 1_048_576;

export async function registerRoutes(app: App, context: NativeContext): Promise<void> {
  const spaces = fileSpaces(context.services);
  healthRoutes(app, context);
  metricsRoutes(app, context, "getPrometheusMetrics");
  documentRoutes(app);
  knowAllMethods(app);
  await app.register((proxied: App, _options, done) => {
    leaveBodiesUnread(proxied);
    previewRoutes(proxied, context);
    done();
  });
  await app.register(
    async (v1: App) => {
      versionRoutes(v1, context);
      metricsRoutes(v1, context, "getMetrics");
      sessionRoutes(v1, context);
      eventRoutes(v1, context);
      keyRoutes(v1, context);
      execRoutes(v1, context);
      startedExecRoutes(v1, context);
      execStreamRoutes(v1, context);
      shellRoutes(v1, context);
      portRoutes(v1, context);
      networkRoutes(v1, context);
      workspaceRoutes(v1, context);
      imageRoutes(v1, context);
      commitRoutes(v1, context);
      v1.addHook("preHandler", (request, _reply, done) => {
        if (request.routeOptions.url?.startsWith("/v1/workspaces/") === true)
          for (const part of [request.query, request.body]) placePaths(part);
        done();
      });
      for (const space of spaces) {
        fileRoutes(v1, space, context.memory);
        downloadRoutes(v1, space, context);
        archiveDownloadRoutes(v1, space, context);
        watchRoutes(v1, space, context);
      }
      await v1.register((bytes: App, _options, done) => {
        leaveBodiesUnread(bytes);
        imageImportRoutes(bytes, context);
        for (const space of spaces) {
          fileUploadRoutes(bytes, space, context);
          archiveUploadRoutes(bytes, space, context);
        }
        done();
      });
      await v1.register(async (forms: App) => await uploadRoutes(forms, spaces, context));
      await v1.register(async (sockets: App) => {
        await acceptSockets(sockets);
        ptyRoutes(sockets, context);
        portConnectionRoutes(sockets, context);
      });
    },
    { prefix: "/v1" },
  );
}

/** In a separate scope: sockets add hooks to every route of a scope. */
async function acceptSockets(app: App): Promise<void> {
  await app.register(websocket, {
    options: {
      maxPayload: MAX_MESSAGE_BYTES,
      // SECURITY: thousands of empty messages and pongs fit in one read; other work gets its turn
      // after each. Guarded by stalls.test.ts.
      allowSynchronousEvents: false,
      // Terminals answer pings themselves.
      autoPong: false,
      // SECURITY: one of the offered subprotocols may be the key; it is never the one that is
      // accepted. Guarded by pty.test.ts.
      handleProtocols: (offered: ReadonlySet<string>) =>
        offered.has(PTY_SUBPROTOCOL) && PTY_SUBPROTOCOL,
    },
    errorHandler: (error, socket, request) => {
      request.log.info({ err: failureForLog(error) }, "a socket failed");
      socket.terminate();
    },
  });
}
