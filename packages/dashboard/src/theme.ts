/** Dark or light: the system's setting, unless the visitor has chosen. */
import { computed, effect, signal } from "@preact/signals";

export type Theme = "dark" | "light";

const NAME = "sandkasten-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);
system.addEventListener("change", ({ matches }) => {
  systemIsDark.value = matches;
});

const chosen = signal<Theme | undefined>(read());

export const theme = computed<Theme>(() => chosen.value ?? (systemIsDark.value ? "dark" : "light"));

export function toggleTheme(): void {
  chosen.value = theme.peek() === "dark" ? "light" : "dark";
}

export function startTheme(): void {
  effect(() => {
    document.documentElement.dataset["theme"] = theme.value;
  });
  effect(() => {
    if (chosen.value !== undefined) localStorage.setItem(NAME, chosen.value);
  });
}

function read(): Theme | undefined {
  const stored = localStorage.getItem(NAME);
  return stored === "dark" || stored === "light" ? stored : undefined;
}
