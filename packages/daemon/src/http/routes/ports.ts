/** Ports of a session: what listens, and links to it. */
import { portListBodySchema } from "@sandkasten/protocol";
import { errors, LIVING_ERRORS } from "../answers.ts";
import type { App, HttpContext } from "../context.ts";
import { sessionParams } from "./params.ts";

const tags = ["ports"];

export function portRoutes(app: App, { services }: HttpContext): void {
  app.get(
    "/sessions/:id/ports",
    {
      schema: {
        tags,
        summary: "List what listens on TCP ports inside a session",
        params: sessionParams,
        response: { 200: portListBodySchema, ...errors(LIVING_ERRORS) },
      },
    },
    async ({ caller, params }) => ({ ports: [...(await services.ports.list(caller, params.id))] }),
  );
}
