/** Reads fields of events, which a service of another version may omit. */
import type { RunEventBody } from "@sandkasten/agents/client";

export function textIn(event: RunEventBody, name: string): string | undefined {
  const value = event[name];
  return typeof value === "string" ? value : undefined;
}

export function numberIn(event: RunEventBody, name: string): number | undefined {
  const value = event[name];
  return typeof value === "number" ? value : undefined;
}

export interface FailureFields {
  readonly code: string;
  readonly message: string;
}

export function failureIn(event: RunEventBody): FailureFields | undefined {
  const { code, message } = Object(event["error"]) as Readonly<Record<string, unknown>>;
  if (typeof message !== "string") return undefined;
  return { code: typeof code === "string" ? code : "RUN_FAILED", message };
}
