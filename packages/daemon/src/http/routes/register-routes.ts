/** All routes, each in the scope that reads bodies as it needs. */
import websocket from "@fastify/websocket";
import { leaveBodiesUnread } from "../byte-body.ts";
import type { App, HttpContext } from "../context.ts";
import { PTY_SUBPROTOCOL } from "../credentials.ts";
import { failureForLog } from "../error-answer.ts";
import { fileSpaces, placePaths } from "../file-space.ts";
import { archiveDownloadRoutes, archiveUploadRoutes } from "./archives.ts";
import { documentRoutes, healthRoutes, versionRoutes } from "./daemon.ts";
import { execStreamRoutes } from "./exec-streams.ts";
import { execRoutes } from "./execs.ts";
import { downloadRoutes, fileUploadRoutes } from "./file-content.ts";
import { fileRoutes } from "./files.ts";
import { imageImportRoutes } from "./image-import.ts";
import { imageRoutes } from "./images.ts";
import { portConnectionRoutes } from "./port-connections.ts";
import { portRoutes } from "./ports.ts";
import { knowAllMethods, previewRoutes } from "./previews.ts";
import { ptyRoutes } from "./pty.ts";
import { sessionRoutes } from "./sessions.ts";
import { shellRoutes } from "./shells.ts";
import { startedExecRoutes } from "./started-execs.ts";
import { uploadRoutes } from "./uploads.ts";
import { watchRoutes } from "./watch.ts";
import { workspaceRoutes } from "./workspaces.ts";

const MAX_MESSAGE_BYTES = 1_048_576;

export async function registerRoutes(app: App, context: HttpContext): Promise<void> {
  const spaces = fileSpaces(context.services);
  healthRoutes(app, context);
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
      sessionRoutes(v1, context);
      execRoutes(v1, context);
      startedExecRoutes(v1, context);
      execStreamRoutes(v1, context);
      shellRoutes(v1, context);
      portRoutes(v1, context);
      workspaceRoutes(v1, context);
      imageRoutes(v1, context);
      v1.addHook("preHandler", (request, _reply, done) => {
        if (request.routeOptions.url?.startsWith("/v1/workspaces/") === true)
          for (const part of [request.query, request.body]) placePaths(part);
        done();
      });
      for (const space of spaces) {
        fileRoutes(v1, space);
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

/** In a scope of its own: sockets put hooks on every route beside them. */
async function acceptSockets(app: App): Promise<void> {
  await app.register(websocket, {
    options: {
      maxPayload: MAX_MESSAGE_BYTES,
      // Terminals answer pings themselves.
      autoPong: false,
      // SECURITY: of the subprotocols that were offered, one may be the key; it is never the one that is answered. Guarded by pty.test.ts.
      handleProtocols: (offered: ReadonlySet<string>) =>
        offered.has(PTY_SUBPROTOCOL) && PTY_SUBPROTOCOL,
    },
    errorHandler: (error, socket, request) => {
      request.log.info({ err: failureForLog(error) }, "a socket failed");
      socket.terminate();
    },
  });
}
