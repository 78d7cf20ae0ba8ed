/** `sandkasten forward`: forwards a session's port to this machine. */
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type PortConnection, SandboxError, type Session } from "@sandkasten/sdk";
import { type Command, InvalidArgumentError } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { CliFailure } from "../failure.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { parsePort } from "./ports.ts";

/** SECURITY: for local programs only: access to the port is access to the sandbox. Guarded by ports.test.ts. */
const LISTEN_HOST = "127.0.0.1";

interface Forwarded {
  /** Inside the sandbox. */
  readonly port: number;
  /** On this machine; 0 for any free port. */
  readonly localPort: number;
}

export function addForwardCommand(program: Command, cli: Cli): void {
  program
    .command("forward")
    .summary("forward a port of a session to this machine")
    .description(
      "Listens on 127.0.0.1 and forwards each connection to a port inside the session until you " +
        "interrupt it. For databases, debuggers and other programs that are not web pages.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .argument(
      "<ports...>",
      "PORT, or PORT:LOCAL for another local port; 0 chooses a free port",
      (text, before?: readonly Forwarded[]) => [...(before ?? []), parseForwarded(text)],
    )
    .action(async (id: string, asked: readonly Forwarded[]) => {
      const client = await cli.connect();
      const session = await findSession(cli, client, id);
      using servers = new DisposableStack();
      for (const forwarded of asked) {
        const { server, sockets } = await listen(cli, session, forwarded);
        servers.defer(() => {
          server.close();
          for (const socket of sockets) socket.destroy();
        });
        const { port: localPort } = server.address() as AddressInfo;
        await printForwarded(cli, session.id, { ...forwarded, localPort });
      }
      await cli.interrupts.race(async () => await new Promise<never>(() => undefined));
    });
}

export function parseForwarded(text: string): Forwarded {
  const [inside = "", here, ...rest] = text.split(":");
  if (rest.length > 0) throw new InvalidArgumentError("It must be PORT or PORT:LOCAL.");
  const port = parsePort(inside);
  if (here === undefined) return { port, localPort: port };
  return { port, localPort: here === "0" ? 0 : parsePort(here) };
}

async function printForwarded(cli: Cli, id: string, { port, localPort }: Forwarded): Promise<void> {
  if (cli.wantsJson()) {
    await cli.out.line(plainJson({ port, local_host: LISTEN_HOST, local_port: localPort }));
    return;
  }
  await cli.out.line(
    plainText(`${LISTEN_HOST}:${localPort} leads to port ${port} of ${id}. Ctrl-C stops it.`),
  );
}

async function listen(
  cli: Cli,
  session: Session,
  { port, localPort }: Forwarded,
): Promise<{ readonly server: Server; readonly sockets: ReadonlySet<Socket> }> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    carry(session, port, socket).catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      void cli.err.line(plainText(`port ${port}: ${reason}`));
      socket.destroy();
    });
  });
  server.listen(localPort, LISTEN_HOST);
  try {
    await once(server, "listening");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CliFailure(`Cannot listen on ${LISTEN_HOST}:${localPort} (${code ?? "unknown"}).`, {
      hint: `\`sandkasten forward ${session.id} ${port}:0\` chooses a free port.`,
      cause: error,
    });
  }
  return { server, sockets };
}

/** Resolves when both sides have ended. */
async function carry(session: Session, port: number, socket: Socket): Promise<void> {
  const gone = new AbortController();
  socket.once("close", () => gone.abort());
  socket.on("error", () => undefined);
  let connection: PortConnection;
  try {
    connection = await session.connect(port, { signal: gone.signal });
  } catch (error) {
    if (gone.signal.aborted) return;
    throw error;
  }
  using open = connection;
  const remote = Duplex.fromWeb(
    { readable: open.readable, writable: open.writable },
    { allowHalfOpen: true },
  );
  try {
    await Promise.all([pipeline(socket, remote), pipeline(remote, socket)]);
  } catch (error) {
    // Errors of a disconnected client are irrelevant.
    if (error instanceof SandboxError && error.code !== "CANCELLED") throw error;
  } finally {
    socket.destroy();
  }
}
