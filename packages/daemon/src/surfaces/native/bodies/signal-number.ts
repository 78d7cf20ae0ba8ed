/** Signals by name or number. */
import { constants } from "node:os";
import { SandboxError } from "@sandkasten/protocol";

const NUMBERS: ReadonlyMap<string, number> = new Map(Object.entries(constants.signals));

export function signalNumber(signal: number | string): number {
  if (typeof signal === "number") return signal;
  const name = signal.startsWith("SIG") ? signal : `SIG${signal}`;
  const number = NUMBERS.get(name);
  if (number === undefined)
    throw new SandboxError(
      "INVALID_REQUEST",
      `there is no signal ${JSON.stringify(signal.slice(0, 16))}; use a name like TERM or a number from 1 to 64`,
    );
  return number;
}
