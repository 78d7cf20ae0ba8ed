/**
 * Collects small chunks of a model's text, so that a long answer does not become thousands of
 * events.
 */

const MAX_LENGTH = 2048;
const MAX_AGE_MS = 40;

export class TextBuffer {
  readonly #emit: (text: string) => void;
  #pieces: string[] = [];
  #length = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(emit: (text: string) => void) {
    this.#emit = emit;
  }

  add(text: string): void {
    this.#pieces.push(text);
    this.#length += text.length;
    if (this.#length >= MAX_LENGTH) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), MAX_AGE_MS);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pieces.length === 0) return;
    const text = this.#pieces.join("");
    this.#pieces = [];
    this.#length = 0;
    this.#emit(text);
  }
}
