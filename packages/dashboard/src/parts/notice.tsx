/** What is shown where there is nothing to show. */
import type { ComponentChildren, JSX } from "preact";
import { messageOf } from "./format.ts";

export function Empty({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return <div class="empty">{children}</div>;
}

export function Failure({ of }: { readonly of: unknown }): JSX.Element | null {
  if (of === undefined) return null;
  return (
    <p class="failure" role="alert">
      {messageOf(of)}
    </p>
  );
}
