/** Serves only `/metrics`, on an address that needs no key. */
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { ListenAddress } from "../config/listen-address.ts";

const HEADERS_TIMEOUT_MS = 10_000;
/** Enough for a few scrapers; further connections wait or are refused. */
const MAX_CONNECTIONS = 64;

export class MetricsServer implements AsyncDisposable {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** `render` returns the text in Prometheus format. */
  static async listen(
    { host, port }: ListenAddress,
    render: () => Promise<string>,
    onFailure: (error: unknown) => void,
  ): Promise<MetricsServer> {
    const server = createServer({ headersTimeout: HEADERS_TIMEOUT_MS }, (request, response) => {
      const path = (request.url ?? "").split("?", 1)[0];
      const isRead = request.method === "GET" || request.method === "HEAD";
      if (path !== "/metrics" || !isRead) {
        response.writeHead(404, { "content-type": "text/plain" }).end("GET /metrics\n");
        return;
      }
      render().then(
        (text) =>
          response
            .writeHead(200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" })
            .end(request.method === "HEAD" ? undefined : text),
        (error: unknown) => {
          onFailure(error);
          response.writeHead(500).end();
        },
      );
    });
    server.maxConnections = MAX_CONNECTIONS;
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host, port }, () => resolve());
    });
    return new MetricsServer(server);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
