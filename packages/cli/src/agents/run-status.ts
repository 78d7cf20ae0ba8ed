/** The colour of a run's or step's status. */
import type { Style } from "../output/style.ts";

export function paintStatus(style: Style, text: string, status: string): string {
  if (status === "succeeded") return style.green(text);
  if (status === "failed" || status === "needs_attention") return style.red(text);
  return status === "cancelled" || status === "skipped" ? style.dim(text) : style.yellow(text);
}
