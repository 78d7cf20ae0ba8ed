/** An xterm.js terminal in the page, which accepts no more output than it can show. */
import { effect } from "@preact/signals";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { theme } from "../theme.ts";
import { openWithAdoptedStyles } from "./adopted-styles.ts";
import { TERMINAL_COLOURS } from "./colours.ts";

/** Output that xterm.js has not shown yet; above this, `write` waits. */
const MOST_UNSHOWN_BYTES = 512 * 1024;
const SCROLLBACK_LINES = 10_000;

export interface ScreenOptions {
  readonly label: string;
  /** Ignores keys, and converts line endings itself. */
  readonly isReadOnly?: boolean;
  /** Moves the focus on Ctrl-M, since Tab belongs to the terminal. */
  readonly onLeave?: () => void;
}

export class Screen implements Disposable {
  readonly terminal: Terminal;
  readonly #fit = new FitAddon();
  readonly #observer: ResizeObserver;
  readonly #stopTheme: () => void;
  #unshownBytes = 0;
  #wake: (() => void) | undefined;

  constructor(parent: HTMLElement, { label, isReadOnly = false, onLeave }: ScreenOptions) {
    this.terminal = new Terminal({
      cursorBlink: !isReadOnly,
      cursorStyle: "bar",
      cursorInactiveStyle: isReadOnly ? "none" : "outline",
      disableStdin: isReadOnly,
      convertEol: isReadOnly,
      fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
      fontSize: 13,
      lineHeight: 1.2,
      minimumContrastRatio: 4.5,
      scrollback: SCROLLBACK_LINES,
      theme: TERMINAL_COLOURS[theme.peek()],
    });
    this.terminal.loadAddon(this.#fit);
    openWithAdoptedStyles(() => this.terminal.open(parent));
    this.terminal.textarea?.setAttribute("aria-label", label);
    this.terminal.attachCustomKeyEventHandler((event) => {
      const isLeaving = event.type === "keydown" && event.ctrlKey && event.key === "m";
      if (isLeaving && onLeave !== undefined) {
        event.preventDefault();
        onLeave();
        return false;
      }
      // Read-only output must not trap the keyboard focus.
      return !(isReadOnly && event.key === "Tab");
    });
    this.#stopTheme = effect(() => {
      this.terminal.options.theme = TERMINAL_COLOURS[theme.value];
    });
    this.#observer = new ResizeObserver(() => this.#fit.fit());
    this.#observer.observe(parent);
    this.#fit.fit();
  }

  /** Resolves when more can be shown without a backlog. */
  async write(output: Uint8Array | string): Promise<void> {
    this.#unshownBytes += output.length;
    this.terminal.write(output, () => {
      this.#unshownBytes -= output.length;
      if (this.#unshownBytes <= MOST_UNSHOWN_BYTES / 2) this.#wake?.();
    });
    if (this.#unshownBytes <= MOST_UNSHOWN_BYTES) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  [Symbol.dispose](): void {
    this.#observer.disconnect();
    this.#stopTheme();
    this.#wake?.();
    this.terminal.dispose();
  }
}
