/** A share of a limit, as a bar and a text. */
import type { JSX } from "preact";

export interface MeterProps {
  readonly label: string;
  /** From 0 to 1; undefined when it is not known yet. */
  readonly share: number | undefined;
  readonly text: string;
}

export function Meter({ label, share, text }: MeterProps): JSX.Element {
  const width = Math.min(1, Math.max(0, share ?? 0));
  return (
    <span class="meter" title={label}>
      <span class="meter-bar" aria-hidden="true">
        <span class={width > 0.9 ? "full" : ""} style={{ transform: `scaleX(${width})` }} />
      </span>
      <span class="meter-text">
        <span class="meter-label">{label} </span>
        {text}
      </span>
    </span>
  );
}
