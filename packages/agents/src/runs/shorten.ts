/** Shortens values for events and for a model's history, and says what was left out. */

/** The value itself if its JSON is short enough, otherwise with its long texts cut. */
export function shortenedTo(value: unknown, maxLength: number): unknown {
  const length = jsonLength(value);
  if (length <= maxLength) return value;
  for (let textLength = Math.floor(maxLength / 2); textLength >= 64; textLength /= 4) {
    const shorter = mapTexts(value, (text) => shortenedText(text, Math.floor(textLength)));
    if (jsonLength(shorter) <= maxLength) return shorter;
  }
  const text = JSON.stringify(value);
  return { shortened: true, length, beginning: text.slice(0, Math.floor(maxLength / 4)) };
}

/** Its beginning and its end. */
export function shortenedText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const head = Math.ceil(maxLength * 0.75);
  const tail = maxLength - head;
  const left = text.length - head - tail;
  return `${text.slice(0, head)}\n[… ${left} characters left out …]\n${tail === 0 ? "" : text.slice(-tail)}`;
}

function jsonLength(value: unknown): number {
  return (JSON.stringify(value) ?? "").length;
}

function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, mapTexts(item, change)]),
  );
}
