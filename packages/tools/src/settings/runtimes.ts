/** Names of runtimes and images, and what each refers to. */

/** The language of a program in compute mode. */
export type Language = "python" | "node" | "typescript" | "bash";

const languages: ReadonlyMap<string, Language> = new Map([
  ["python", "python"],
  ["python3", "python"],
  ["node", "node"],
  ["javascript", "node"],
  ["js", "node"],
  ["typescript", "typescript"],
  ["ts", "typescript"],
  ["bash", "bash"],
  ["sh", "bash"],
  ["shell", "bash"],
  ["linux", "bash"],
]);

/** The names that `runtime` accepts besides images. */
export const RUNTIME_NAMES: readonly string[] = [...languages.keys()];

/** The daemon's short names for images, by language. */
const images: Readonly<Record<Language, string>> = {
  python: "python",
  node: "node",
  typescript: "node",
  bash: "linux",
};

/**
 * A short name and the reference that it stands for are the same image. The request uses the
 * short name, because a daemon without the image can then use the programs of its machine.
 */
const shortNames: ReadonlyMap<string, string> = new Map([
  ["python:3.11-slim", "python"],
  ["sandbox-runtime:python", "python"],
  ["node:20-slim", "node"],
  ["sandbox-runtime:node", "node"],
  ["ubuntu:22.04", "linux"],
  ["sandbox-runtime:base", "linux"],
  ["bash", "linux"],
  ["shell", "linux"],
]);

/** The language of a runtime's name; undefined if the name is an image's. */
export function languageOf(runtime: string): Language | undefined {
  return languages.get(runtime.toLowerCase());
}

/** The language that programs in an image are most likely written in. */
export function likelyLanguage(image: string): Language {
  const repository =
    image
      .replace(/[@:][^/]*$/, "")
      .split("/")
      .at(-1) ?? "";
  if (/python|pypy/.test(repository)) return "python";
  return /^node|bun|deno/.test(repository) ? "node" : "bash";
}

export function imageOfLanguage(language: Language): string {
  return images[language];
}

/** The image to request from the daemon. */
export function imageToAskFor(image: string): string {
  return shortNames.get(image) ?? image;
}

/** The full reference of an image's name, for allowlists. */
export function canonicalImage(image: string): string {
  const short = imageToAskFor(image);
  for (const [reference, name] of shortNames) if (name === short) return reference;
  return image;
}
