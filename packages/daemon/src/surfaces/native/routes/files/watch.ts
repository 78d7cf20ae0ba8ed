/** Streams file changes as events. */
import { watchQuery } from "@sandkasten/protocol";
import { answerOf, errors, FILE_ERRORS } from "../../openapi/documented-responses.ts";
import { pathBody, pathOf, WORKSPACE } from "../../bodies/path-body.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { EventStream } from "../../../http/responses/event-stream.ts";
import { Turns } from "../../../http/bodies/turns.ts";
import type { FileSpace } from "./file-space.ts";

/** A turn ends with the first of these. */
const CHANGES_PER_TURN = 100;
const TURN_MS = 2;

/**
 * SECURITY: code that changes files in a loop would keep the daemon busy with its watches and delay
 * every other request, so all of them share turns (threat: oversized messages). Guarded by
 * watch.test.ts.
 */
export function watchRoutes(app: App, space: FileSpace, context: NativeContext): void {
  const turns = new Turns();
  app.get(
    `${space.prefix}/fs/watch`,
    {
      exposeHeadRoute: false,
      config: { stream: true },
      schema: {
        tags: [space.tag],
        summary: "Stream changes below a directory as they happen",
        description:
          "`change` events have `kind` and `path`; after the kind `overflow` some changes are missing, so list the directory again. The last event, if any, is `error`.",
        params: space.params,
        querystring: watchQuery,
        response: {
          ...answerOf(200, "text/event-stream", "Changes as they happen"),
          ...errors(FILE_ERRORS),
        },
      },
    },
    async (request, reply) => {
      const path = pathOf(request.query, WORKSPACE);
      const { recursive } = request.query;
      const options = recursive === undefined ? {} : { recursive };
      const gone = new AbortController();
      reply.raw.once("close", () => gone.abort());
      using files = await space.open(request.caller, request.params.id, path);
      const changes = await files.watch(path, options, gone.signal);
      await EventStream.serve(reply, context, async (stream) => {
        stream.signal.addEventListener("abort", () => gone.abort(), { once: true });
        let sent = 0;
        let beganMs = performance.now();
        for await (const change of changes) {
          await stream.send("change", { kind: change.kind, ...pathBody(change) });
          sent += 1;
          if (sent < CHANGES_PER_TURN && performance.now() - beganMs < TURN_MS) continue;
          await new Promise<void>((resolve) => turns.take(resolve));
          sent = 0;
          beganMs = performance.now();
        }
      });
    },
  );
}
