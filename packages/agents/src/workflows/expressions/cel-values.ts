/** Converts JSON values to CEL values, and back. */
import { isCelList, isCelMap, isCelType, isCelUint } from "@bufbuild/cel";
import type { CelInput, CelValue } from "@bufbuild/cel";

/** Whole numbers are ints in CEL, so that `count + 1` works; JSON has only one number type. */
export function celFromJson(value: unknown): CelInput {
  switch (typeof value) {
    case "number":
      return Number.isSafeInteger(value) ? BigInt(value) : value;
    case "string":
    case "boolean":
      return value;
    case "object":
      if (value === null) return null;
      if (Array.isArray(value)) return value.map(celFromJson);
      return new Map(Object.entries(value).map(([name, item]) => [name, celFromJson(item)]));
    default:
      throw new Error(`${typeof value} is not a JSON value`);
  }
}

const MAX_DEPTH = 200;

/**
 * SECURITY: a list that contains itself twice, thirty levels deep, is small in memory but has a
 * billion entries when it is serialized, so the output is counted. A loop that nests a value deeper
 * each time creates one that nothing can parse again. Guarded by evaluator.test.ts and
 * failures-and-limits.test.ts.
 */
export function jsonFromCel(value: CelValue, maxBytes: number): unknown {
  return new JsonWriter(maxBytes).write(value);
}

class JsonWriter {
  readonly #maxBytes: number;
  #bytes = 0;
  #depth = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  write(value: CelValue): unknown {
    switch (typeof value) {
      case "string":
        this.#count(value.length + 2);
        return value;
      case "boolean":
        this.#count(5);
        return value;
      case "bigint":
        return this.#int(value);
      case "number":
        this.#count(8);
        if (Number.isFinite(value)) return value;
        throw new Error(`the value is ${value}, which JSON cannot have`);
      case "object":
        return this.#object(value);
      default:
        throw new Error("the value cannot be written as JSON");
    }
  }

  #object(value: Extract<CelValue, object | null>): unknown {
    this.#count(2);
    if (value === null) return null;
    if (isCelList(value)) return this.#deeper(() => [...value].map((item) => this.write(item)));
    if (isCelMap(value))
      return this.#deeper(() =>
        Object.fromEntries([...value].map(([name, item]) => this.#entry(name, item))),
      );
    if (isCelUint(value)) return this.#int(value.value);
    if (isCelType(value)) return value.name;
    if (value instanceof Uint8Array) throw new Error("bytes cannot be written as JSON");
    return this.#message(value.message);
  }

  #deeper<Result>(write: () => Result): Result {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH)
      throw new Error(`the value is nested more than ${MAX_DEPTH} levels deep`);
    const result = write();
    this.#depth -= 1;
    return result;
  }

  #entry(name: unknown, item: CelValue): [string, unknown] {
    const text = isCelUint(name) ? String(name.value) : String(name);
    this.#count(text.length + 3);
    return [text, this.write(item)];
  }

  #int(value: bigint): number {
    this.#count(8);
    const number = Number(value);
    if (Number.isSafeInteger(number)) return number;
    throw new Error(`the whole number ${value} is too large for JSON; use string()`);
  }

  #message(message: Message): string {
    const seconds = Number(message.seconds ?? 0n);
    const ms = seconds * 1000 + Math.trunc((message.nanos ?? 0) / 1_000_000);
    if (message.$typeName === "google.protobuf.Timestamp") return new Date(ms).toISOString();
    if (message.$typeName === "google.protobuf.Duration") return `${ms / 1000}s`;
    throw new Error(`a ${message.$typeName} cannot be written as JSON`);
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#maxBytes)
      throw new Error(`the value has more than ${this.#maxBytes} bytes`);
  }
}

/** Times and durations, the only messages that expressions can create. */
interface Message {
  readonly $typeName: string;
  readonly seconds?: bigint;
  readonly nanos?: number;
}
