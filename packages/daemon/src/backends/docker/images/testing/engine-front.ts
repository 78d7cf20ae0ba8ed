/** A proxy for a Docker engine that ends the response to a pull in the middle. */
import { once } from "node:events";
import { createServer, request as requestFrom } from "node:http";
import type { IncomingMessage } from "node:http";

export interface EngineFront extends AsyncDisposable {
  /** `unix://…`. */
  readonly host: string;
}

/** @param ending - Whether the response breaks off or ends cleanly, as a proxy may make it look. */
export async function startEngineFront(
  engineSocket: string,
  socket: string,
  ending: "broken" | "clean",
): Promise<EngineFront> {
  const server = createServer((incoming, response) => {
    const { method, url: path, headers } = incoming;
    const outgoing = requestFrom({ socketPath: engineSocket, method, path, headers });
    incoming.pipe(outgoing);
    outgoing.once("response", (found: IncomingMessage) => {
      response.writeHead(found.statusCode ?? 500, found.headers);
      if (path?.includes("/images/create") !== true) return void found.pipe(response);
      found.once("data", (chunk: Buffer) => {
        response.write(chunk, () => {
          found.destroy();
          if (ending === "broken") response.destroy();
          else response.end();
        });
      });
    });
  });
  server.listen(socket);
  await once(server, "listening");
  return {
    host: `unix://${socket}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
