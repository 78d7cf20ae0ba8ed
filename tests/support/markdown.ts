/** What tests need of a document: its code blocks, links and headings. */

export interface CodeBlock {
  readonly language: string;
  readonly text: string;
  /** The number of its first line in the document, from 1. */
  readonly line: number;
  /** Its output according to the document: a block of `text` right after it. */
  readonly output?: string;
}

const BLOCK = /^```(\w*)\n(.*?)^```$(\n\n^```text\n(?<output>.*?)^```$)?/gms;

/** All blocks except those that are the output of another. */
export function codeBlocks(document: string, language?: string): readonly CodeBlock[] {
  return [...document.matchAll(BLOCK)]
    .map((match) => ({
      language: match[1] ?? "",
      text: match[2] ?? "",
      line: document.slice(0, match.index).split("\n").length + 1,
      ...(match.groups?.["output"] !== undefined && { output: match.groups["output"] }),
    }))
    .filter((block) => language === undefined || block.language === language);
}

/** As written, without those to other hosts. */
export function localLinks(document: string): readonly string[] {
  return [...document.matchAll(/\]\((?!https?:)([^)\s]+)\)/gu)].map(([, target = ""]) => target);
}

/** The anchors of a document's headings. */
export function headingAnchors(document: string): ReadonlySet<string> {
  const prose = document.replaceAll(/^```.*?^```$/gms, "");
  return new Set(
    [...prose.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
        .replaceAll(/\s/g, "-"),
    ),
  );
}

/**
 * Matches what a document shows: `…` is anything within a line, and alone in a line any lines; the
 * end of the last line is ignored.
 */
export function shownOutput(text: string): RegExp {
  const source = text
    .trimEnd()
    .split(/(?<=\n)/)
    .map((line) =>
      line.trim() === "…"
        ? String.raw`(?:.*\n)*`
        : line
            .split("…")
            .map(escaped)
            .join(String.raw`[^\n]*`),
    )
    .join("");
  return new RegExp(String.raw`^${source}\n*$`);
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}
