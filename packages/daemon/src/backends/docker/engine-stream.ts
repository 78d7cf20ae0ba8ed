/** The standard streams of a program that an engine runs, over a single connection. */
import { Duplex } from "node:stream";

/** Each piece of output has a header: its stream, and how many bytes follow. */
const HEADER_BYTES = 8;
const STDOUT = 1;
const STDERR = 2;
const MAX_SAID_CHARS = 1_000;

/** Writes go to stdin, reads come from stdout. Ending one direction leaves the other open. */
export class EngineStream extends Duplex {
  readonly #connection: Duplex;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerBytes = 0;
  /** Bytes left of the piece whose header was read last. */
  #bytesLeft = 0;
  /** The beginning of stderr. Untrusted: it may come from code. */
  #said = "";
  #output = false;

  constructor(connection: Duplex) {
    super({ allowHalfOpen: true });
    this.#connection = connection;
    connection.on("data", (bytes: Buffer) => {
      if (!this.#receive(bytes)) connection.pause();
    });
    connection.once("end", () => this.#ended());
    connection.once("error", (error) => this.destroy(error));
    connection.once("close", () => {
      // After a proper end there may still be unread output.
      if (!connection.readableEnded) this.destroy();
    });
    connection.pause();
  }

  override _read(): void {
    this.#connection.resume();
  }

  override _write(bytes: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    // Done when the connection is, so buffered data does not count as written.
    this.#connection.write(bytes, done);
  }

  override _final(done: () => void): void {
    this.#connection.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#connection.destroy();
    done(error);
  }

  /** A program that ends without any output has failed, and said why on stderr. */
  #ended(): void {
    if (this.#output || this.#said === "") this.push(null);
    else this.destroy(new Error(`the program ended at once: ${JSON.stringify(this.#said)}`));
  }

  /** Returns false when the reader's buffer is full. */
  #receive(bytes: Buffer): boolean {
    let wanted = true;
    for (let at = 0; at < bytes.length;) {
      if (this.#bytesLeft === 0) {
        at += this.#takeHeader(bytes.subarray(at));
        continue;
      }
      const piece = bytes.subarray(at, at + this.#bytesLeft);
      at += piece.length;
      this.#bytesLeft -= piece.length;
      if (this.#header[0] === STDOUT) {
        this.#output = true;
        wanted = this.push(piece);
      } else if (this.#said.length < MAX_SAID_CHARS)
        this.#said = (this.#said + piece.toString()).slice(0, MAX_SAID_CHARS);
    }
    return wanted;
  }

  /** Returns how many bytes belonged to the header, which may arrive in parts. */
  #takeHeader(bytes: Buffer): number {
    const taken = bytes.copy(this.#header, this.#headerBytes);
    this.#headerBytes += taken;
    if (this.#headerBytes < HEADER_BYTES) return taken;
    this.#headerBytes = 0;
    const [kind] = this.#header;
    if (kind !== STDOUT && kind !== STDERR) {
      this.destroy(new Error("the engine's stream is not in Docker's format"));
      return bytes.length;
    }
    this.#bytesLeft = this.#header.readUInt32BE(4);
    return taken;
  }
}
