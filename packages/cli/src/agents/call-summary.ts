/** One line that says what a tool was called with: the command, the code or the path rather than all of it. */
import { plainText } from "../output/plain-text.ts";

/** Fields that say most about a call, the most telling first, in all spellings that tools accept. */
const TELLING = ["cmd", "command", "code", "path", "query", "task"] as const;

/** @param room - How many characters there are for it. */
export function callSummary(input: unknown, room: number): string {
  const text = essence(input);
  const [line = "", ...more] = text.trim().split("\n");
  // A part that is certainly long enough: arguments may have megabytes.
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
