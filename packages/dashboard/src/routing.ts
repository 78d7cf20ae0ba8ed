/**
 * The current location in the dashboard: the part of the URL behind `#`, so that the daemon serves
 * one page.
 */
import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

/** The parts of the path, decoded: `#/sessions/ses_1/files` is `["sessions", "ses_1", "files"]`. */
export const place = computed<readonly string[]>(() =>
  hash.value
    .replace(/^#\/?/, "")
    .split("/")
    .filter((part) => part !== "")
    .map(decoded),
);

export function linkTo(...parts: readonly string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function goTo(...parts: readonly string[]): void {
  location.hash = linkTo(...parts);
}

/** A malformed URL must not break the page. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
