/** Values with `{{ expression }}` in their texts: parsed from files, and filled in. */
import type { LocatedScalar, Located } from "../language/located-yaml.ts";
import type { Problems } from "../language/problem.ts";
import type { Expression } from "./expression.ts";

export type Template =
  | { readonly kind: "constant"; readonly value: unknown }
  /** A text that consists of a single expression keeps the type of its value. */
  | { readonly kind: "value"; readonly expression: Expression }
  | { readonly kind: "text"; readonly parts: readonly (string | Expression)[] }
  | { readonly kind: "list"; readonly items: readonly Template[] }
  | { readonly kind: "map"; readonly entries: readonly (readonly [string, Template])[] };

/** Checks an expression and reports what is wrong at its position. */
export type CheckExpression = (
  scalar: LocatedScalar,
  source: string,
  offset: number,
) => Expression | undefined;

export function compileTemplate(
  located: Located,
  check: CheckExpression,
  problems: Problems,
): Template {
  switch (located.kind) {
    case "list":
      return {
        kind: "list",
        items: located.items.map((item) => compileTemplate(item, check, problems)),
      };
    case "map":
      return {
        kind: "map",
        entries: located.entries.map(
          ({ name, value }) => [name, compileTemplate(value, check, problems)] as const,
        ),
      };
    case "scalar":
      return typeof located.value === "string"
        ? compileText(located, located.value, check, problems)
        : { kind: "constant", value: located.value };
  }
}

function compileText(
  scalar: LocatedScalar,
  text: string,
  check: CheckExpression,
  problems: Problems,
): Template {
  const parts: (string | Expression)[] = [];
  let at = 0;
  for (;;) {
    const open = text.indexOf("{{", at);
    if (open === -1) break;
    const close = endOfExpression(text, open + 2);
    if (close === undefined) {
      problems.add(scalar.placeOf(open), "{{ has no }} that ends it");
      return { kind: "constant", value: text };
    }
    if (open > at) parts.push(text.slice(at, open));
    const source = text.slice(open + 2, close);
    const leading = source.length - source.trimStart().length;
    const expression = check(scalar, source.trim(), open + 2 + leading);
    if (expression !== undefined) parts.push(expression);
    at = close + 2;
  }
  if (at === 0) return { kind: "constant", value: text };
  const rest = text.slice(at);
  const [only] = parts;
  if (parts.length === 1 && typeof only === "object" && rest.trim() === "")
    return { kind: "value", expression: only };
  if (rest !== "") parts.push(rest);
  return { kind: "text", parts };
}

/**
 * The position of an expression's `}}`, skipping those inside a text or a map of the expression.
 */
function endOfExpression(text: string, from: number): number | undefined {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const character = text[at];
    if (character === '"' || character === "'") {
      const end = endOfText(text, at, character);
      if (end === undefined) return undefined;
      at = end;
    } else if (character === "{") {
      depth += 1;
    } else if (character === "}") {
      if (depth === 0) return text[at + 1] === "}" ? at : undefined;
      depth -= 1;
    }
  }
  return undefined;
}

function endOfText(text: string, open: number, quote: string): number | undefined {
  for (let at = open + 1; at < text.length; at++) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === quote) return at;
  }
  return undefined;
}

/** All expressions of a template, in the order in which `fillTemplate` takes their values. */
export function expressionsOf(template: Template): Expression[] {
  switch (template.kind) {
    case "constant":
      return [];
    case "value":
      return [template.expression];
    case "text":
      return template.parts.filter((part) => typeof part !== "string");
    case "list":
      return template.items.flatMap(expressionsOf);
    case "map":
      return template.entries.flatMap(([, value]) => expressionsOf(value));
  }
}

/** Takes one value for each expression from the iterator. */
export function fillTemplate(template: Template, values: Iterator<unknown>): unknown {
  switch (template.kind) {
    case "constant":
      return template.value;
    case "value":
      return values.next().value;
    case "text":
      return template.parts
        .map((part) => (typeof part === "string" ? part : textOf(values.next().value)))
        .join("");
    case "list":
      return template.items.map((item) => fillTemplate(item, values));
    case "map":
      return Object.fromEntries(
        template.entries.map(([name, value]) => [name, fillTemplate(value, values)]),
      );
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
