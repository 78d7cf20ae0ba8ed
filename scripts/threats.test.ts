import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
const sources = globSync(
  [
    "{packages,tests,scripts}/**/*.ts",
    "native/*/{src,tests}/**/*.rs",
    "images/**/Dockerfile",
    "compose*.yaml",
  ],
  { cwd: root, exclude: ["**/node_modules", "**/dist", "scripts/threats.test.ts"] },
);

/** The bold words in the first column of the tables. */
function namedThreats(): readonly string[] {
  const page = readFileSync(join(root, "docs/security/threats.md"), "utf8");
  return [...page.matchAll(/^\| \*\*(.+?)\*\* \|/gm)].map(([, name]) => name ?? "");
}

/** A text in which each comment is on one line. */
function unwrapped(text: string): string {
  return text.replaceAll(/\n\s*(?:\*|\/\/[/!]?|#) ?(?=\S)/g, " ");
}

/** The threats that comments name: after `threat:`, `Threats:` or `SECURITY: against`. */
function citations(text: string): string[] {
  const found = text.matchAll(/(?:\b[Tt]hreats?: |SECURITY: against )([^:;.)]+)/g);
  return [...found].map(([, names]) => names ?? "");
}

interface Guard {
  readonly test: string;
  /** A part of the test's title, if the comment quotes one. */
  readonly title: string | undefined;
}

/** The test files that comments name after `Guarded by`, each with the title quoted before it. */
function guards(text: string): Guard[] {
  return [...text.matchAll(/\b[Gg]uarded by ([^\n]*)/g)].flatMap(([, list = ""]) =>
    [...list.matchAll(/(?:"([^"]+)" in )?([\w./-]+\.test\.ts)/g)].map(([, title, test = ""]) => ({
      test,
      title,
    })),
  );
}

const testFiles = sources.filter((file) => file.endsWith(".test.ts"));

function isTest(path: string, title = ""): boolean {
  return testFiles
    .filter((file) => file === path || file.endsWith(`/${path}`))
    .some((file) => readFileSync(join(root, file), "utf8").includes(title));
}

/** The rest of a list of names after all known names were removed. */
function unknownIn(list: string, known: readonly string[]): string {
  let rest = list;
  for (const name of known.toSorted((a, b) => b.length - a.length))
    rest = rest.replaceAll(name, "");
  return rest.replaceAll(/,| and |\s/g, "");
}

describe("comments that name a threat", () => {
  const known = namedThreats();
  const cited = sources.flatMap((file) =>
    citations(unwrapped(readFileSync(join(root, file), "utf8"))).map((list) => ({ file, list })),
  );

  test("name threats that docs/security/threats.md describes", () => {
    expect(known.length).toBeGreaterThan(40);
    expect(cited.length).toBeGreaterThan(100);
    expect(cited.filter(({ list }) => unknownIn(list, known) !== "")).toEqual([]);
  });

  test("name tests that exist", () => {
    const missing = sources.flatMap((file) =>
      guards(unwrapped(readFileSync(join(root, file), "utf8")))
        .filter(({ test: path, title }) => !isTest(path, title))
        .map((guard) => ({ file, ...guard })),
    );
    expect(missing).toEqual([]);
  });

  test("name threats in words, not by number", () => {
    const numbered = sources.filter((file) =>
      /\bthreats?\s+[A-F]?\d/i.test(unwrapped(readFileSync(join(root, file), "utf8"))),
    );
    expect(numbered).toEqual([]);
  });
});
