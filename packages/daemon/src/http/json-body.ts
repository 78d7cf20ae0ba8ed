/** Reads JSON bodies, whatever their type is called, within a size and as long as they keep coming. */
import { SandboxError } from "@sandkasten/protocol";
import type { App } from "./context.ts";

export function readJsonBodies(app: App, maxBytes: number, stallTimeoutMs: number): void {
  app.removeAllContentTypeParsers();
  // A key `__proto__` is an attack, and never one of our fields.
  const parse = app.getDefaultJsonParser("error", "ignore");
  app.addContentTypeParser("*", (request, payload, done) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const stall = setTimeout(() => finish(stalled(stallTimeoutMs)), stallTimeoutMs);
    const onData = (chunk: Buffer): void => {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) finish(tooLarge(maxBytes));
      else {
        chunks.push(chunk);
        stall.refresh();
      }
    };
    const onEnd = (): void => finish();
    const onError = (cause: Error): void =>
      finish(new SandboxError("CANCELLED", "the client left before its body was here", { cause }));
    let finished = false;
    const finish = (error?: SandboxError): void => {
      // Whatever happens to the connection afterwards has nobody to be told to.
      if (finished) return;
      finished = true;
      clearTimeout(stall);
      payload.off("data", onData).off("end", onEnd);
      if (error !== undefined) {
        done(error, undefined);
        return;
      }
      const text = (chunks.length === 1 ? chunks[0] : Buffer.concat(chunks))?.toString() ?? "";
      // Where all fields may be left out, so may the whole body.
      if (text === "") done(null, undefined);
      else void parse(request, text, done);
    };
    payload.on("data", onData).on("end", onEnd).on("error", onError);
  });
}

export function tooLarge(maxBytes: number): SandboxError {
  return new SandboxError("PAYLOAD_TOO_LARGE", `the body may have at most ${maxBytes} bytes here`, {
    details: { max_bytes: maxBytes },
  });
}

export function stalled(stallTimeoutMs: number): SandboxError {
  return new SandboxError(
    "INVALID_REQUEST",
    `the body stopped coming: nothing of it arrived for ${stallTimeoutMs / 1000} s`,
  );
}
