/** Ports of a session: listeners, and links to them. */
import {
  portInPath,
  portListBodySchema,
  previewUrlBodySchema,
  previewUrlRequestSchema,
} from "@sandkasten/protocol";
import { errors, LIVING_ERRORS } from "../../openapi/documented-responses.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { sessionParams } from "../params.ts";

const tags = ["ports"];

export function portRoutes(app: App, { services, previews }: NativeContext): void {
  app.get(
    "/sessions/:id/ports",
    {
      schema: {
        tags,
        summary: "List the TCP ports that processes of a session listen on",
        params: sessionParams,
        response: { 200: portListBodySchema, ...errors(LIVING_ERRORS, "UNSUPPORTED") },
      },
    },
    async ({ caller, params }) => ({ ports: [...(await services.ports.list(caller, params.id))] }),
  );

  app.post(
    "/sessions/:id/ports/:port/url",
    {
      schema: {
        tags,
        summary: "Create a URL that opens a port in a browser without the key",
        description: [
          "The URL gives access to this one port of this one session, until it expires or the session ends.",
          "The page has a separate host name below `preview.domain`, or below `localhost` for a local daemon.",
          "Where neither leads to the daemon, the URL is a path of the daemon, and the page is isolated from the daemon's origin.",
        ].join(" "),
        params: sessionParams.extend({ port: portInPath }),
        body: previewUrlRequestSchema,
        response: { 200: previewUrlBodySchema, ...errors(LIVING_ERRORS) },
      },
    },
    async ({ caller, params, body, raw }) => {
      await services.ports.checkReachable(caller, params.id);
      const address = { sessionId: params.id, port: params.port };
      const { url, expiresAtMs } = previews.link(
        address,
        raw.headers.host ?? "",
        caller,
        body.expires_in_seconds || undefined,
      );
      return { url, expires_at: new Date(expiresAtMs).toISOString() };
    },
  );
}
