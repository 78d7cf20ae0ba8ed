/** Keys of a workflow file: their schemas, aliases and meanings. */
import type { z } from "zod";
import type { Located, LocatedMap } from "./located-yaml.ts";
import { plainValue } from "./located-yaml.ts";
import { didYouMean } from "../../suggested-name.ts";
import type { Place, Problems } from "./problem.ts";

export interface KeyFacts {
  readonly description: string;
  /** What a value must be; follows "must be" in messages. */
  readonly allowed: string;
  /** Aliases. */
  readonly aliases?: readonly string[];
  readonly required?: boolean;
  /** The default. */
  readonly unset?: string;
}

export type Keys = Readonly<Record<string, z.ZodType>>;

export function key<Schema extends z.ZodType>(schema: Schema, facts: KeyFacts): Schema {
  return schema.meta({ ...facts });
}

export function factsOf(schema: z.ZodType): KeyFacts {
  return schema.meta() as unknown as KeyFacts;
}

/** The keys found in a mapping. */
export interface Fields<Shape extends Keys> {
  readonly place: Place;
  /** Checked values; absent and invalid ones are undefined. */
  readonly values: { readonly [Name in keyof Shape]?: z.output<Shape[Name]> | undefined };
  /** The same as written in the file. */
  readonly located: { readonly [Name in keyof Shape]?: Located };
  /** The positions of the names. */
  readonly names: { readonly [Name in keyof Shape]?: Place };
}

/** Reads a mapping: refuses unknown names, two spellings of one name, and invalid values. */
export function readKeys<Shape extends Keys>(
  map: LocatedMap,
  shape: Shape,
  where: string,
  problems: Problems,
): Fields<Shape> {
  const values: Record<string, unknown> = {};
  const located: Record<string, Located> = {};
  const names: Record<string, Place> = {};
  const spelled = new Map<string, string>();
  const known = spellings(shape);
  for (const { name, place, value } of map.entries) {
    const canonical = known.get(name);
    if (canonical === undefined) {
      problems.add(place, `${where}: ${show(name)} is not known${didYouMean(name, known.keys())}`);
      continue;
    }
    const earlier = spelled.get(canonical);
    if (earlier !== undefined) {
      problems.add(place, `${where}: ${name} and ${earlier} are the same key; keep one of them`);
      continue;
    }
    spelled.set(canonical, name);
    located[canonical] = value;
    names[canonical] = place;
    const schema = shape[canonical] as z.ZodType;
    const { success, data } = schema.safeParse(plainValue(value));
    if (success) values[canonical] = data;
    else
      problems.add(
        value.place,
        `${where}: ${name} is ${show(plainValue(value))}; it must be ${factsOf(schema).allowed}`,
      );
  }
  for (const [name, schema] of Object.entries(shape)) {
    const { required = false, allowed } = factsOf(schema);
    if (required && !spelled.has(name))
      problems.add(map.place, `${where}: ${name} is missing; it must be ${allowed}`);
  }
  return { place: map.place, values, located, names } as Fields<Shape>;
}

function spellings(shape: Keys): Map<string, string> {
  const known = new Map<string, string>();
  for (const [name, schema] of Object.entries(shape)) {
    known.set(name, name);
    for (const alias of factsOf(schema).aliases ?? []) known.set(alias, name);
  }
  return known;
}

const SHOWN_LENGTH = 60;

/** A value for a message: short, and on one line. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (typeof value === "object" && value !== null) return "a mapping";
  if (value === null) return "empty";
  const text = JSON.stringify(value);
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text;
}
