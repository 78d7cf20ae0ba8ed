/** A connection requested by a program in the sandbox, as a duplex byte stream. */
import { Duplex } from "node:stream";
import {
  encodeJsonFrame,
  FrameType,
  ProtocolError,
  RUNNER_STREAM_MAX_CREDIT_BYTES,
} from "@sandkasten/protocol";
import type { SandboxRefusalCode } from "@sandkasten/protocol";
import type { SandboxConnection } from "../ports/channel.ts";
import { StreamSink } from "./stream-sink.ts";
import { WireStream } from "./wire-stream.ts";
import type { StreamHost } from "./wire-stream.ts";

export interface InboundConnectionHost extends StreamHost {
  readonly letsGoOfMemory: boolean;
  /** Called when the stream has ended. */
  forget(): void;
}

/** How many bytes may wait to be read in addition to the window. */
const BUFFER_BYTES = 65_536;

export class InboundConnection extends Duplex implements SandboxConnection {
  readonly wire: WireStream;
  readonly #host: InboundConnectionHost;
  #state: "asked" | "open" | "over" = "asked";
  /** Received bytes whose credit is returned when more are wanted. */
  #unconsumedBytes = 0;
  #failure: { readonly code: SandboxRefusalCode; readonly message: string } | undefined;

  constructor(id: number, windowBytes: number, host: InboundConnectionHost) {
    super({ readableHighWaterMark: BUFFER_BYTES, writableHighWaterMark: 4 * BUFFER_BYTES });
    this.#host = host;
    const sink = new ConnectionSink({
      data: (bytes) => this.#receive(bytes),
      end: () => this.#receiveEnd(),
    });
    this.wire = new WireStream(
      id,
      sink,
      host,
      undefined,
      windowBytes,
      RUNNER_STREAM_MAX_CREDIT_BYTES,
    );
    // The consumer adds its own error listener; until then errors have no receiver.
    this.on("error", () => undefined);
  }

  get letsGoOfMemory(): boolean {
    return this.#host.letsGoOfMemory;
  }

  accept(): void {
    if (this.#state !== "asked") return;
    this.#state = "open";
    this.#host.write(encodeJsonFrame(FrameType.event, this.wire.id, { event: "connected" }));
  }

  fail(code: SandboxRefusalCode, message: string): void {
    this.#failure ??= { code, message };
    this.destroy();
  }

  /** Called when the program or the runner closed the connection. */
  cancelled(): void {
    this.#end();
    this.destroy(new Error("the program closed the connection"));
  }

  override _read(): void {
    this.wire.consumed(this.#unconsumedBytes);
    this.#unconsumedBytes = 0;
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    void this.#send(chunk, done);
  }

  override _final(done: () => void): void {
    this.wire.sendEnd();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (this.#state !== "over") {
      const hasEnded = this.readableEnded && this.writableFinished;
      const frame =
        hasEnded && this.#failure === undefined
          ? encodeJsonFrame(FrameType.response, this.wire.id, {})
          : encodeJsonFrame(
              FrameType.error,
              this.wire.id,
              this.#failure ?? { code: "reset", message: error?.message ?? "the connection broke" },
            );
      this.#host.write(frame);
      this.#end();
    }
    done(error);
  }

  async #send(chunk: Buffer, done: (error?: Error | null) => void): Promise<void> {
    const sent = await this.wire.send(chunk);
    done(sent ? null : new Error("the program closed the connection"));
  }

  #end(): void {
    if (this.#state === "over") return;
    this.#state = "over";
    this.#host.forget();
    this.wire.finish({ kind: "response", message: {} });
  }

  #receive(bytes: Buffer): void {
    this.#requireOpen();
    // The payload's memory is reused, so copy it.
    if (this.push(Buffer.from(bytes))) this.wire.consumed(bytes.byteLength);
    else this.#unconsumedBytes += bytes.byteLength;
  }

  #receiveEnd(): void {
    this.#requireOpen();
    this.push(null);
  }

  #requireOpen(): void {
    if (this.#state === "asked")
      throw new ProtocolError(
        "unexpected_frame",
        "the runner sent bytes on a connection that is not open yet",
      );
  }
}

interface ConnectionEvents {
  readonly data: (bytes: Buffer) => void;
  readonly end: () => void;
}

class ConnectionSink extends StreamSink {
  readonly #events: ConnectionEvents;

  constructor(events: ConnectionEvents) {
    super();
    this.#events = events;
  }

  override data(bytes: Buffer): void {
    this.#events.data(bytes);
  }

  override end(): void {
    this.#events.end();
  }

  /** Only the owner ends the stream. */
  override finish(): void {}
}
