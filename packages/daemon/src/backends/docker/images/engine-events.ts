/** Reads the lines of JSON that a Docker engine sends while it works. */
import { engineUnreachable } from "../engine-errors.ts";

/** The fields of a line that we use. */
export interface EngineEvent {
  /** What the engine is doing, or with `id` what it is doing to that layer. */
  readonly status: string;
  readonly id?: string;
  readonly current?: number;
  readonly total?: number;
}

/** The engine failed in the middle of its work, with a reason. */
export class EngineWorkFailed extends Error {}

const MAX_LINE_CHARS = 1024 * 1024;

/**
 * Rejects with EngineWorkFailed for an error in the stream, and with ENGINE_UNREACHABLE if the
 * connection breaks or the data is invalid.
 */
export async function* readEvents(
  stream: AsyncIterable<Buffer | string>,
  doing: string,
): AsyncGenerator<EngineEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for await (const chunk of stream) {
      rest += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
      const lines = rest.split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > MAX_LINE_CHARS) throw new Error("a line is too long");
      for (const line of lines) if (line.trim() !== "") yield readEvent(line);
    }
    if (rest.trim() !== "") yield readEvent(rest);
  } catch (error) {
    throw error instanceof EngineWorkFailed ? error : engineUnreachable(doing, error);
  }
}

function readEvent(line: string): EngineEvent {
  const event = JSON.parse(line) as Readonly<Record<string, unknown>>;
  const { status, stream, id, progressDetail, error, errorDetail } = event;
  const failure = text(error) ?? text((errorDetail as { message?: unknown } | undefined)?.message);
  if (failure !== undefined) throw new EngineWorkFailed(failure);
  const { current, total } = (progressDetail ?? {}) as { current?: unknown; total?: unknown };
  return {
    status: text(status) ?? text(stream) ?? "",
    ...(typeof id === "string" && { id }),
    ...(typeof current === "number" && { current }),
    // The engine sends -1 if it does not know.
    ...(typeof total === "number" && total > 0 && { total }),
  };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
