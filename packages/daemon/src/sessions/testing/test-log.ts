/** The log of a core in tests. */
import type { Log } from "../../ports/log.ts";

/** Every line that the core logged. */
export class TestLog implements Log {
  readonly lines: { readonly level: string; readonly message: string; readonly err?: unknown }[] =
    [];

  info(fields: Readonly<Record<string, unknown>>, message: string): void {
    this.lines.push({ level: "info", message, ...fields });
  }

  warn(fields: Readonly<Record<string, unknown>>, message: string): void {
    this.lines.push({ level: "warn", message, ...fields });
  }

  error(fields: Readonly<Record<string, unknown>>, message: string): void {
    this.lines.push({ level: "error", message, ...fields });
  }
}
