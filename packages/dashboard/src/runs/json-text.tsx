/** A value that may be large, collapsed. */
import type { JSX } from "preact";

export function JsonText(props: {
  readonly title: string;
  readonly value: unknown;
}): JSX.Element | null {
  const { title, value } = props;
  if (value === undefined || value === null) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
  return (
    <details class="json">
      <summary>{title}</summary>
      {/* A scrollable region must be reachable by keyboard. */}
      <pre class="mono" tabIndex={0}>
        {text}
      </pre>
    </details>
  );
}
