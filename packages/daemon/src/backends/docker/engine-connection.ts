/** Connects to a Docker engine. */
import { Agent as PlainAgent } from "node:http";
import { Agent as TlsAgent } from "node:https";
import { SandboxError } from "@sandkasten/protocol";
import type Docker from "dockerode";
import { SshAgent } from "./ssh-agent.ts";

export interface DockerConnection {
  /** `unix:///…`, `tcp://…` or `ssh://…`. */
  readonly host: string;
  /** File contents in PEM; if given, a `tcp://` engine is accessed with TLS. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
  /** The program for `ssh://` engines; `ssh` when absent. */
  readonly sshProgram?: string;
}

/** Whether the engine is accessed through a socket on this machine's file system. */
export function isLocal({ host }: DockerConnection): boolean {
  return URL.parse(host)?.protocol === "unix:";
}

/**
 * A client of the engine. It does not connect yet.
 *
 * The library is loaded here on demand: it is slow to load, and most daemons never need it.
 *
 * @param idleTimeoutMs - How long a connection may be silent before it is closed; unlimited when absent.
 */
export async function connectEngine(
  { host, tls, sshProgram }: DockerConnection,
  idleTimeoutMs?: number,
): Promise<Docker> {
  const { default: Client } = await import("dockerode");
  const url = URL.parse(host);
  // The library would take omitted options from DOCKER_HOST and similar variables.
  const client = (options: Docker.DockerOptions & { readonly agent: PlainAgent }): Docker =>
    new Client({ timeout: idleTimeoutMs, ...options });
  // Connections are not reused: a kept one may belong to a dead engine, which shows too late.
  const once = { keepAlive: false };
  if (url?.protocol === "unix:")
    return client({
      host: "",
      protocol: "http",
      socketPath: decodeURIComponent(url.pathname),
      agent: new PlainAgent(once),
    });
  if (url?.protocol === "tcp:")
    return client({
      host: url.hostname,
      port: url.port === "" ? (tls === undefined ? 2375 : 2376) : url.port,
      protocol: tls === undefined ? "http" : "https",
      agent: tls === undefined ? new PlainAgent(once) : new TlsAgent(once),
      ...(tls === undefined ? {} : { ca: tls.ca, cert: tls.cert, key: tls.key }),
    });
  if (url?.protocol === "ssh:")
    return client({
      host: url.hostname,
      port: 80,
      protocol: "http",
      agent: new SshAgent(url, sshProgram ?? "ssh"),
    });
  throw new SandboxError(
    "UNSUPPORTED",
    `${JSON.stringify(host)} is not a valid Docker engine address. Write unix:///path, tcp://host:port or ssh://user@host.`,
  );
}
