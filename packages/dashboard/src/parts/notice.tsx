/** Shown if there is nothing to show, or not yet. */
import type { ComponentChildren, JSX } from "preact";
import { messageOf } from "./format.ts";

export function Empty({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return <div class="empty">{children}</div>;
}

/** Appears after a moment, to avoid flicker while something loads quickly. */
export function Loading({ text = "Loading…" }: { readonly text?: string }): JSX.Element {
  return (
    <p class="empty loading" role="status">
      {text}
    </p>
  );
}

export function Failure({ of }: { readonly of: unknown }): JSX.Element | null {
  if (of === undefined) return null;
  return (
    <p class="failure" role="alert">
      {messageOf(of)}
    </p>
  );
}
