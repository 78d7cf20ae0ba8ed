/**
 * Makes untrusted text safe to show.
 *
 * SECURITY: names, paths, commands and messages may come from code in a sandbox, and a terminal acts
 * on control characters in them (threat: control characters; guarded by plain-text.test.ts and
 * exec.test.ts). Only a command's own output is passed on unchanged, as every shell does.
 */

/** Control, bidirectional and invisible characters, line separators, lone surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export function plainText(text: string): string {
  return text.replaceAll(UNPRINTABLE, (character) => {
    const code = character.codePointAt(0) ?? 0;
    const digits = code.toString(16);
    return SHORT[character] ?? (code < 0x100 ? `\\x${digits.padStart(2, "0")}` : `\\u{${digits}}`);
  });
}

/** Also joiners, which some scripts and emoji need and which change no direction. */
const HARMLESS = new Set(["\n", "\t", "\u200c", "\u200d"]);

/** Text of several lines, such as a model's: line breaks and tabs are kept. */
export function plainProse(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .replaceAll(UNPRINTABLE, (character) =>
      HARMLESS.has(character) ? character : plainText(character),
    );
}

/** JSON on one line, or indented, with text that is safe for a terminal. */
export function plainJson(value: unknown, indent = 0): string {
  const json = JSON.stringify(value, undefined, indent);
  return json.replaceAll(UNPRINTABLE, (character) =>
    character === "\n" ? character : character.split("").map(escaped).join(""),
  );
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
