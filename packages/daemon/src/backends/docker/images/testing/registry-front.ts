/** A proxy for a registry: records requests, and can hold a download or cut it off. */
import { once } from "node:events";
import { createServer, request as requestFrom } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

export interface Hold {
  /** Resolves when a large blob is being sent and is slowed down. */
  readonly reached: Promise<void>;
  /** Resolves when the client downloading the blob has disconnected. */
  readonly abandoned: Promise<void>;
  /** Lets the rest through. */
  release(): void;
  /** Cuts this and every further connection. */
  cut(): void;
}

export interface RegistryFront extends AsyncDisposable {
  /** `127.0.0.1:port`. */
  readonly address: string;
  /** `GET /v2/…` and so on, in order of arrival. */
  readonly requests: readonly string[];
  /** Slows down the next large blob after its beginning. */
  hold(): Hold;
}

interface Holding {
  readonly reached: () => void;
  readonly abandoned: () => void;
  readonly released: Promise<void>;
  isReleased: boolean;
}

const LARGE_BYTES = 1_000_000;
const PASSED_BYTES = 400_000;
const DRIP_BYTES = 256;
const DRIP_MS = 10;

export async function startFront(registry: string): Promise<RegistryFront> {
  const requests: string[] = [];
  const cut = new AbortController();
  let holding: Holding | undefined;

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    requests.push(`${incoming.method} ${incoming.url}`);
    if (cut.signal.aborted) return void response.destroy();
    const [host, port] = registry.split(":");
    const { method, url: path, headers } = incoming;
    const outgoing = requestFrom({ host, port, method, path, headers });
    outgoing.end();
    const [found] = (await once(outgoing, "response")) as [IncomingMessage];
    response.writeHead(found.statusCode ?? 500, found.headers);
    const held = Number(found.headers["content-length"] ?? 0) > LARGE_BYTES ? holding : undefined;
    if (held !== undefined) response.once("close", held.abandoned);
    let passed = 0;
    for await (const chunk of found as AsyncIterable<Buffer>) {
      let sent = 0;
      if (held !== undefined && passed >= PASSED_BYTES) {
        held.reached();
        // A client waiting for data notices only with the next byte that it should stop.
        for (; !held.isReleased && !response.destroyed && sent < chunk.length; sent += DRIP_BYTES) {
          response.write(chunk.subarray(sent, sent + DRIP_BYTES));
          await Promise.race([held.released, sleep(DRIP_MS)]);
        }
      }
      if (cut.signal.aborted || response.destroyed) return void response.destroy();
      response.write(chunk.subarray(sent));
      passed += chunk.length;
    }
    response.end();
  };

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  return {
    address: `127.0.0.1:${port}`,
    requests,
    hold: () => {
      const reached = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      const abandoned = Promise.withResolvers<void>();
      const mine: Holding = {
        reached: reached.resolve,
        abandoned: abandoned.resolve,
        released: released.promise,
        isReleased: false,
      };
      holding = mine;
      const release = (): void => {
        holding = undefined;
        mine.isReleased = true;
        released.resolve();
      };
      return {
        reached: reached.promise,
        abandoned: abandoned.promise,
        release,
        cut: () => {
          cut.abort();
          release();
        },
      };
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
