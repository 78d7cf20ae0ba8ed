/** Short messages about completed and failed actions. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { messageOf } from "./format.ts";

interface Toast {
  readonly id: number;
  readonly text: string;
  readonly kind: "done" | "failed";
}

const SHOWN_MS = 6000;
const toasts = signal<readonly Toast[]>([]);
let lastId = 0;

function show(text: string, kind: Toast["kind"]): void {
  const toast = { id: ++lastId, text, kind };
  toasts.value = [...toasts.peek(), toast];
  setTimeout(() => {
    toasts.value = toasts.peek().filter(({ id }) => id !== toast.id);
  }, SHOWN_MS);
}

/** Performs a visitor's action, and reports a failure. */
export function attempt(work: () => Promise<unknown>, doneText?: string): void {
  work().then(
    () => doneText !== undefined && show(doneText, "done"),
    (error: unknown) => show(messageOf(error), "failed"),
  );
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, kind }) => (
        <p key={id} class={`toast ${kind}`}>
          {text}
        </p>
      ))}
    </div>
  );
}
