/** Lets administrators create, list and revoke keys. */
import {
  createdKeySchema,
  createKeySchema,
  idInPath,
  keyListSchema,
  okSchema,
} from "@sandkasten/protocol";
import { z } from "zod";
import type { App } from "../../http/app.ts";
import { createKeyOptions, keyBody } from "../bodies/key-body.ts";
import type { NativeContext } from "../context.ts";
import { errors } from "../openapi/documented-responses.ts";

const tags = ["keys"];
/** Ids of configured keys are derived from their names, which may contain dots. */
const keyParams = z.object({ id: z.union([idInPath, z.string().regex(/^config-[\w.-]{1,64}$/)]) });

export function keyRoutes(app: App, { keys }: NativeContext): void {
  app.post(
    "/keys",
    {
      schema: {
        tags,
        summary: "Create a key. Only this response contains the key itself",
        body: createKeySchema,
        response: { 201: createdKeySchema, ...errors("QUOTA_EXCEEDED") },
      },
    },
    async (request, reply) => {
      const { key, secret } = await keys.create(request.caller, createKeyOptions(request.body));
      reply.code(201);
      return { ...keyBody(key), key: secret };
    },
  );

  app.get(
    "/keys",
    {
      schema: {
        tags,
        summary: "List keys, including configured and revoked ones",
        response: { 200: keyListSchema, ...errors() },
      },
    },
    async (request) => ({ keys: (await keys.list(request.caller)).map(keyBody) }),
  );

  app.delete(
    "/keys/:id",
    {
      schema: {
        tags,
        summary: "Revoke a key. Its open connections and its preview links end",
        params: keyParams,
        response: { 200: okSchema, ...errors("KEY_NOT_FOUND", "CONFLICT") },
      },
    },
    async (request) => {
      await keys.revoke(request.caller, request.params.id);
      return { ok: true as const };
    },
  );
}
