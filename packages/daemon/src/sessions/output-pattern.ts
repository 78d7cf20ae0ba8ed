/** Searches a command's output for a pattern, line by line, as it arrives. */
import { StringDecoder } from "node:string_decoder";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { OutputStream } from "@sandkasten/protocol";
import { SandboxError } from "@sandkasten/protocol";
import { RE2JS } from "re2js";
import type { JournalChunk } from "../ports/exec-journal.ts";
import type { PatternMatch } from "./services/exec-service.ts";

/**
 * A longer line is searched in overlapping pieces of this length, each starting at the middle of
 * the previous one.
 */
const MAX_LINE = 4096;
/** Length of a pattern times its counted repetitions. */
const MAX_EXPANDED = 8192;
/** The length of one search turn; it is followed by a pause several times as long. */
const TURN_MS = 2;
const PAUSE_FACTOR = 4;

/**
 * SECURITY: the pattern comes from a client and the text from a sandbox, so both are hostile. RE2
 * runs in time linear in the text; pattern size and text per search are bounded, and all searches
 * together take a bounded share of the event loop, in short turns, for any number of lines and
 * waiting clients (threat: slow clients). Guarded by output-pattern.test.ts.
 */
export class OutputPattern {
  readonly #regex: RE2JS;
  readonly #streams = new Map<OutputStream, UnfinishedLine>();

  constructor(pattern: string) {
    const counts = [...pattern.matchAll(/\{(\d*)(?:,(\d*))?\}/gu)].map(([, least, most]) =>
      Math.max(1, Number(most ?? least), Number(least)),
    );
    const expanded = counts.reduce((product, count) => product * count, pattern.length);
    if (expanded > MAX_EXPANDED)
      throw new SandboxError(
        "INVALID_REQUEST",
        `the pattern is too large: its length times its counted repetitions may be at most ${MAX_EXPANDED}`,
      );
    try {
      this.#regex = RE2JS.compile(pattern);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new SandboxError("INVALID_REQUEST", `invalid pattern: ${reason}`, { cause });
    }
  }

  /** The first match in the new text; text after the last newline counts as a line. */
  async find({ stream, bytes }: JournalChunk): Promise<PatternMatch | undefined> {
    const unfinished = this.#streams.get(stream) ?? new UnfinishedLine();
    this.#streams.set(stream, unfinished);
    const lines = unfinished.add(bytes)[Symbol.iterator]();
    for (;;) {
      const { isOver, match } = await inTurn(() => this.#searchSome(stream, lines));
      if (isOver) return match;
    }
  }

  #searchSome(stream: OutputStream, lines: Iterator<string>): Searched {
    const startedMs = performance.now();
    do {
      const line = lines.next();
      if (line.done === true) return { isOver: true };
      const match = this.#search(stream, line.value);
      if (match !== undefined) return { isOver: true, match };
    } while (performance.now() - startedMs < TURN_MS);
    return { isOver: false };
  }

  #search(stream: OutputStream, line: string): PatternMatch | undefined {
    const matcher = this.#regex.matcher(line);
    if (!matcher.find()) return undefined;
    const groups = Array.from({ length: matcher.groupCount() }, (_, index) =>
      matcher.group(index + 1),
    );
    return { stream, text: matcher.group(0) ?? "", groups, line };
  }
}

interface Searched {
  readonly isOver: boolean;
  readonly match?: PatternMatch;
}

let lastTurn: Promise<unknown> = Promise.resolve();

/** Runs a piece of searching after earlier ones, with pauses for other work. */
async function inTurn(search: () => Searched): Promise<Searched> {
  const mine = lastTurn.then(() => {
    const startedMs = performance.now();
    return { searched: search(), tookMs: performance.now() - startedMs };
  });
  lastTurn = mine.then(
    ({ tookMs }) => (tookMs < TURN_MS ? nextTurn() : sleep(tookMs * PAUSE_FACTOR)),
    () => undefined,
  );
  return (await mine).searched;
}

/** The text of one stream since its last newline. */
class UnfinishedLine {
  readonly #decoder = new StringDecoder("utf8");
  #text = "";

  /** Lines to search; the last one may still grow. */
  *add(bytes: Uint8Array): Iterable<string> {
    this.#text += this.#decoder.write(Buffer.from(bytes));
    for (;;) {
      const end = this.#text.indexOf("\n");
      const length = end < 0 ? this.#text.length : end;
      if (length > MAX_LINE) {
        yield this.#text.slice(0, MAX_LINE);
        this.#text = this.#text.slice(MAX_LINE / 2);
      } else if (end < 0) break;
      else {
        yield this.#text.slice(0, end).replace(/\r$/u, "");
        this.#text = this.#text.slice(end + 1);
      }
    }
    if (this.#text !== "") yield this.#text;
  }
}
