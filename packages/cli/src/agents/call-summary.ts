/** A one-line summary of a tool call: its command, code or path rather than the whole input. */
import { plainText } from "../output/plain-text.ts";

/** The most informative fields of a call, best first, in all spellings that tools accept. */
const TELLING = ["cmd", "command", "code", "path", "query", "task"] as const;

/** @param room - The maximum number of characters. */
export function callSummary(input: unknown, room: number): string {
  const text = essence(input);
  const [line = "", ...more] = text.trim().split("\n");
  // Truncated early, since arguments may have megabytes.
  const shown = Array.from(plainText(line.slice(0, 2 * room + 2).trimEnd()));
  if (shown.length > room) return `${shown.slice(0, Math.max(0, room - 1)).join("")}…`;
  return more.length > 0 ? `${shown.join("")} …` : shown.join("");
}

function essence(input: unknown): string {
  if (input === undefined || input === null) return "";
  if (typeof input === "string") return input;
  if (typeof input !== "object") return JSON.stringify(input);
  const fields = input as Readonly<Record<string, unknown>>;
  for (const name of TELLING) {
    const value = fields[name];
    if (typeof value === "string" && value !== "") return value;
    if (Array.isArray(value) && value.length > 0) return value.map(String).join(" ");
  }
  return Object.keys(fields).length === 0 ? "" : JSON.stringify(fields);
}
