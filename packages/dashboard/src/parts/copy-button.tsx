/** Copies a text, and confirms it. */
import type { JSX } from "preact";
import { Icon } from "./icons.tsx";
import { attempt } from "./toasts.tsx";

export function CopyButton(props: { readonly text: string; readonly label: string }): JSX.Element {
  const { text, label } = props;
  return (
    <button
      type="button"
      class="plain copy"
      aria-label={label}
      title={label}
      onClick={() => attempt(() => copy(text), "Copied.")}
    >
      <Icon name="copy" />
    </button>
  );
}

/** Browsers give pages without HTTPS no clipboard access, except on loopback. */
async function copy(text: string): Promise<void> {
  if (!("clipboard" in navigator))
    throw new Error("The browser allows copying only over HTTPS. Select the text instead.");
  await navigator.clipboard.writeText(text);
}
