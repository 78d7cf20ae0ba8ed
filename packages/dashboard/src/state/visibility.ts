/** Whether the page is visible, and the time that it shows. */
import { effect, signal } from "@preact/signals";

export const isVisible = signal(!document.hidden);
/** The wall clock, updated once a second while the page is visible. */
export const now = signal(Date.now());

document.addEventListener("visibilitychange", () => {
  isVisible.value = !document.hidden;
});

effect(() => {
  if (!isVisible.value) return undefined;
  now.value = Date.now();
  const timer = setInterval(() => {
    now.value = Date.now();
  }, 1000);
  return () => clearInterval(timer);
});
