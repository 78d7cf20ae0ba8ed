/** A host that gets secrets, the gateway in front of it, and programs that ask. */
import type { IncomingMessage, RequestListener } from "node:http";
import { createServer as createHttpsServer, request as httpsRequest } from "node:https";
import type { RequestOptions, Server as HttpsServer } from "node:https";
import { connect as connectTcp, createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { SecretProxy } from "../secret-proxy.ts";
import type { HeaderSecret } from "../secret-proxy.ts";
import { SessionCa } from "../session-ca.ts";

export const HOST = "api.example.com";
export const SECRET = "Bearer s3cr3t-of-the-edge";

/** Stands for the authorities of the internet. */
export let internet: SessionCa;
export let internetStored: Awaited<ReturnType<typeof SessionCa.make>>;
/** The authority of the sandbox. */
export let inside: SessionCa;
export const closing: (() => void)[] = [];

export async function makeAuthorities(): Promise<void> {
  internetStored = await SessionCa.make(Date.now());
  internet = new SessionCa(internetStored);
  inside = new SessionCa(await SessionCa.make(Date.now()));
}

/** Closes what was opened for a test. */
export function closeAll(): void {
  for (const close of closing.splice(0)) close();
}

export interface Site {
  readonly gateway: Server;
  readonly upstream: HttpsServer;
  /** Heads of the requests that reached the real host. */
  readonly seen: IncomingMessage[];
  readonly connections: () => number;
}

interface SiteOptions {
  readonly secrets?: readonly HeaderSecret[];
  /** The name in the certificate of the real host. */
  readonly certified?: string;
  readonly answer?: RequestListener;
}

export async function open(options: SiteOptions = {}): Promise<Site> {
  const seen: IncomingMessage[] = [];
  let connections = 0;
  const context = await internet.contextFor(options.certified ?? HOST, Date.now());
  const upstream = createHttpsServer({ SNICallback: (_name, done) => done(null, context) });
  upstream.on("secureConnection", () => {
    connections += 1;
  });
  upstream.on("request", (request, response) => {
    seen.push(request);
    (options.answer ?? ((_request, answer) => answer.end("hello")))(request, response);
  });
  const upstreamPort = await listening(upstream);
  const secrets = options.secrets ?? [{ header: "authorization", value: SECRET }];
  const proxy = new SecretProxy({
    ca: () => Promise.resolve(inside),
    secretsFor: (host) => (host === HOST ? secrets : []),
    trusted: [internet.certificate],
    nowMs: () => Date.now(),
    take: () => undefined,
  });
  const gateway = createServer((client) => {
    void proxy
      .serve(HOST, client, () => Promise.resolve(connectTcp(upstreamPort, "127.0.0.1")))
      .finally(() => client.destroy());
  });
  await listening(gateway);
  return { gateway, upstream, seen, connections: () => connections };
}

async function listening(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
  });
  closing.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return (server.address() as AddressInfo).port;
}

export const portOf = ({ gateway }: Site): number => (gateway.address() as AddressInfo).port;

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** A request as a program in the sandbox sends it. */
export async function ask(
  site: Site,
  options: RequestOptions = {},
  body?: Buffer,
): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const request = httpsRequest(
      {
        host: "127.0.0.1",
        port: portOf(site),
        servername: HOST,
        ca: inside.certificate,
        agent: false,
        ...options,
        headers: {
          host: HOST,
          ...(options.headers as Record<string, string | number> | undefined),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks),
          }),
        );
      },
    );
    request.on("error", reject);
    request.end(body);
  });
}

/** Sends exactly this and returns the whole response. */
export async function say(site: Site, text: string): Promise<string> {
  return await new Promise((resolve, reject) => {
    const socket = connectTls({
      host: "127.0.0.1",
      port: portOf(site),
      servername: HOST,
      ca: inside.certificate,
    });
    let answer = "";
    socket.on("data", (chunk: Buffer) => {
      answer += chunk.toString("latin1");
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
    socket.write(text);
  });
}
