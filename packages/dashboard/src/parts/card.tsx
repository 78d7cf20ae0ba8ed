/** One fact in a box. */
import type { JSX } from "preact";

export function Card({
  title,
  text,
}: {
  readonly title: string;
  readonly text: string;
}): JSX.Element {
  return (
    <div class="card small">
      <span class="muted">{title}</span>
      <strong>{text}</strong>
    </div>
  );
}
