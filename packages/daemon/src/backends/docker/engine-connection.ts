/** Opens the way to a Docker engine. */
import { Agent as PlainAgent } from "node:http";
import { Agent as TlsAgent } from "node:https";
import { SandboxError } from "@sandkasten/protocol";
import type Docker from "dockerode";
import { SshAgent } from "./ssh-agent.ts";

export interface DockerConnection {
  /** `unix:///…`, `tcp://…` or `ssh://…`. */
  readonly host: string;
  /** Contents of the files, in PEM; a `tcp://` engine is spoken to with TLS when they are given. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
  /** The program that dials `ssh://` engines; `ssh` when absent. */
  readonly sshProgram?: string;
}

/** Whether the engine is reached by a socket of this machine's file system. */
export function isLocal({ host }: DockerConnection): boolean {
  return URL.parse(host)?.protocol === "unix:";
}

/**
 * A client of the engine. Nothing is dialled yet.
 *
 * The library is loaded here and not before: it takes long to load, and most daemons never need it.
 *
 * @param idleTimeoutMs - How long a connection may say nothing before it is given up; for ever when absent.
 */
export async function connectEngine(
  { host, tls, sshProgram }: DockerConnection,
  idleTimeoutMs?: number,
): Promise<Docker> {
  const { default: Client } = await import("dockerode");
  const url = URL.parse(host);
  // Whatever is left out here the library would take from DOCKER_HOST and its like.
  const client = (options: Docker.DockerOptions & { readonly agent: PlainAgent }): Docker =>
    new Client({ timeout: idleTimeoutMs, ...options });
  // A connection is used once: one that was kept may be a dead engine's, which shows too late.
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
    `A Docker engine cannot be reached by ${JSON.stringify(host)}. Write unix:///path, tcp://host:port or ssh://user@host.`,
  );
}
