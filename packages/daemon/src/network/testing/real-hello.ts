/** The first bytes that Node's own TLS client sends. */
import { Duplex } from "node:stream";
import { connect } from "node:tls";

export async function realHello(servername?: string): Promise<Buffer> {
  const { promise, resolve } = Promise.withResolvers<Buffer>();
  const socket = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => {
      resolve(Buffer.from(chunk));
      done();
    },
  });
  const client = connect({ socket, ...(servername !== undefined && { servername }) });
  client.on("error", () => undefined);
  try {
    return await promise;
  } finally {
    client.destroy();
  }
}
