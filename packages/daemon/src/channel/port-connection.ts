/** Connects to a port inside a sandbox. */
import { connectedEventSchema, emptySchema, SandboxError } from "@sandkasten/protocol";
import type { PortConnection } from "../ports/channel.ts";
import { ByteStreamSink } from "./byte-stream.ts";
import { checkRequest, connectionFor } from "./call.ts";
import { checked } from "./checked-message.ts";
import type { ConnectionHolder } from "./connection-holder.ts";
import { cancelled } from "./translate-errors.ts";

export async function dialPort(
  holder: ConnectionHolder,
  port: number,
  signal?: AbortSignal,
): Promise<PortConnection> {
  if (signal?.aborted === true) throw cancelled("dial", signal);
  const request = checkRequest({ op: "dial", port });
  const connection = await connectionFor(holder, request.op);
  const sink = new ByteStreamSink({
    op: request.op,
    onEvent: (message) => void checked(connectedEventSchema, message, "connected event"),
    onResponse: (message) => void checked(emptySchema, message, "answer to dial"),
  });
  const stream = connection.openStream(request, sink, { deadlineMs: holder.deadlines.answerMs });
  const giveUp = (): void => {
    connection.cancel(stream);
    sink.finish({
      kind: "error",
      error: { code: "cancelled", message: "the caller cancelled the connection" },
    });
  };
  signal?.addEventListener("abort", giveUp, { once: true });
  await sink.begun.promise;
  // From here on, silence is up to the application.
  stream.deadlineMs = undefined;
  return {
    readable: sink.readable(connection, stream),
    writable: new WritableStream<Uint8Array>(
      {
        async write(bytes) {
          if (!(await stream.send(bytes))) {
            throw new SandboxError(
              "PORT_REFUSED",
              `the connection to port ${String(port)} of the sandbox has ended`,
            );
          }
        },
        close() {
          stream.sendEnd();
        },
        abort() {
          connection.cancel(stream);
        },
      },
      { highWaterMark: 1 },
    ),
  };
}
