/** Sends bytes to a daemon exactly as given: what no HTTP library would send. */
import { createHash, randomBytes } from "node:crypto";
import { connect } from "node:net";
import type { Socket } from "node:net";

export interface RawOptions {
  /** Disconnects after the last byte instead of waiting for a response. */
  readonly leaves?: boolean;
}

/** Everything that the server sent until it closed the connection. */
export async function sendRaw(
  daemonUrl: string,
  bytes: string | Uint8Array,
  { leaves = false }: RawOptions = {},
): Promise<string> {
  const socket = dial(daemonUrl);
  const heard: Buffer[] = [];
  return await new Promise((resolve) => {
    const end = (): void => {
      socket.destroy();
      resolve(Buffer.concat(heard).toString("latin1"));
    };
    socket.on("data", (chunk: Buffer) => heard.push(chunk));
    socket.once("close", end);
    // A server may close the connection before it has read everything.
    socket.once("error", end);
    socket.write(bytes, () => {
      if (leaves) end();
    });
  });
}

/** The status of a response; 0 if the server closed the connection without one. */
export function statusOf(response: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(response)?.[1] ?? 0);
}

export function requestHead(
  method: string,
  path: string,
  headers: readonly (readonly [string, string])[],
): string {
  return `${method} ${path} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
}

/** A WebSocket after its handshake, for frames that break the protocol. */
export class RawWebSocket {
  readonly #socket: Socket;
  readonly #closed: Promise<void>;
  #heard = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#closed = new Promise((resolve) => {
      socket.once("close", () => resolve());
      socket.on("error", () => undefined);
    });
    socket.on("data", (chunk: Buffer) => {
      this.#heard = Buffer.concat([this.#heard, chunk]);
    });
  }

  static async open(daemonUrl: string, path: string, apiKey: string): Promise<RawWebSocket> {
    const socket = dial(daemonUrl);
    const key = randomBytes(16).toString("base64");
    socket.write(
      requestHead("GET", path, [
        ["Host", new URL(daemonUrl).host],
        ["Authorization", `Bearer ${apiKey}`],
        ["Connection", "Upgrade"],
        ["Upgrade", "websocket"],
        ["Sec-WebSocket-Version", "13"],
        ["Sec-WebSocket-Key", key],
      ]),
    );
    const raw = new RawWebSocket(socket);
    const accept = createHash("sha1")
      .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest("base64");
    await raw.#until(() => raw.#heard.includes("\r\n\r\n"));
    const end = raw.#heard.indexOf("\r\n\r\n") + 4;
    const head = raw.#heard.subarray(0, end).toString("latin1");
    if (!head.startsWith("HTTP/1.1 101 ") || !head.includes(accept)) throw new Error(head);
    raw.#heard = raw.#heard.subarray(end);
    // The daemon first reports that the port is connected.
    await raw.#until(() => raw.#heard.includes("connected"));
    return raw;
  }

  send(...parts: readonly Uint8Array[]): void {
    this.#socket.write(Buffer.concat(parts));
  }

  leave(): void {
    this.#socket.destroy();
  }

  /** The code of the CLOSE frame with which the server ends the connection. This client does not answer it. */
  async closeCode(): Promise<number> {
    await this.#until(() => this.#closeFrame() !== undefined);
    this.leave();
    return this.#closeFrame() ?? 0;
  }

  #closeFrame(): number | undefined {
    for (let at = 0; at + 4 <= this.#heard.length;) {
      const [first = 0, short = 0] = this.#heard.subarray(at, at + 2);
      if ((first & 0x0f) === 8) return this.#heard.readUInt16BE(at + 2);
      at += short < 126 ? 2 + short : 4 + this.#heard.readUInt16BE(at + 2);
    }
    return undefined;
  }

  async #until(isThere: () => boolean): Promise<void> {
    while (!isThere() && !this.#socket.destroyed)
      await Promise.race([
        new Promise((resolve) => this.#socket.once("data", resolve)),
        this.#closed,
      ]);
  }
}

/** A frame of a client; unmasked frames break the protocol. */
export function frame(
  firstByte: number,
  payload: Uint8Array | string,
  { isMasked = true, length }: { readonly isMasked?: boolean; readonly length?: bigint } = {},
): Buffer {
  const bytes = Buffer.from(payload as string);
  const bit = isMasked ? 0x80 : 0;
  // A mask of zeroes leaves the payload as it is.
  const mask = Buffer.alloc(isMasked ? 4 : 0);
  if (length !== undefined) {
    const announced = Buffer.alloc(8);
    announced.writeBigUInt64BE(length);
    return Buffer.concat([Buffer.from([firstByte, bit | 127]), announced, mask, bytes]);
  }
  const size =
    bytes.length < 126
      ? Buffer.from([bit | bytes.length])
      : Buffer.from([bit | 126, bytes.length >> 8, bytes.length & 0xff]);
  return Buffer.concat([Buffer.from([firstByte]), size, mask, bytes]);
}

function dial(daemonUrl: string): Socket {
  const { port } = new URL(daemonUrl);
  return connect({ host: "127.0.0.1", port: Number(port) });
}
