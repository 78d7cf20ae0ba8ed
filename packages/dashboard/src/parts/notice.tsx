/** What is shown where there is nothing to show, or not yet. */
import type { ComponentChildren, JSX } from "preact";
import { messageOf } from "./format.ts";

export function Empty({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return <div class="empty">{children}</div>;
}

/** Appears after a moment, so that what loads quickly does not flicker. */
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
