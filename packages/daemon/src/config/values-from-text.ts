/** Converts the text of a variable or flag to the type of its key. */
import { z } from "zod";
import { innerSchema } from "./keys.ts";
import type { ConfigKey } from "./keys.ts";
import { durationMs, sizeBytes } from "./quantities.ts";

/** Text that cannot be converted stays text, and the key's schema refuses it. */
export function valueFromText(key: ConfigKey, text: string): unknown {
  return readAs(innerSchema(key.schema), key.name, text);
}

function readAs(schema: z.core.$ZodType, name: string, text: string): unknown {
  if (schema instanceof z.ZodNumber) return numberFrom(name, text.trim());
  if (schema instanceof z.ZodBoolean) return booleanFrom(text.trim());
  if (schema instanceof z.ZodArray) {
    const { element } = schema;
    const list = element instanceof z.ZodObject ? jsonList(text) : undefined;
    if (list !== undefined) return list;
    const parts = listFrom(text);
    // A stray comma must not empty a list: an empty list of allowed images allows all.
    if (parts.length === 0) return text;
    return parts.map((part) => (element instanceof z.ZodObject ? pairFrom(element, part) : part));
  }
  return text;
}

/** For lists of mappings that need more than two fields. */
function jsonList(text: string): unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined; // Not JSON, so the short form.
  }
}

function listFrom(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part.length > 0);
}

/** `a=b` sets the first two fields of an element. */
function pairFrom(element: z.ZodObject, text: string): unknown {
  const [first = "", second = ""] = Object.keys(element.shape);
  const equals = text.indexOf("=");
  if (equals < 0) return text;
  const schema = element.shape[second];
  const value = text.slice(equals + 1);
  return {
    [first]: text.slice(0, equals),
    [second]: schema === undefined ? value : readAs(schema, second, value),
  };
}

/** A key's name ends in its unit, so `30m` and `8MiB` can be converted. */
function numberFrom(name: string, text: string): unknown {
  if (/^[+-]?\d+(?:\.\d+)?$/.test(text)) return Number(text);
  const unit = /_(seconds|ms|bytes|mb)(?:_|$)/.exec(name)?.[1];
  const read = unit === "seconds" || unit === "ms" ? durationMs(text) : sizeBytes(text);
  if (unit === undefined || read === undefined) return text;
  if (unit === "seconds") return read / 1000;
  return unit === "mb" ? read / 2 ** 20 : read;
}

function booleanFrom(text: string): unknown {
  if (/^(?:true|yes|on|1)$/i.test(text)) return true;
  return /^(?:false|no|off|0)$/i.test(text) ? false : text;
}
