/** Converts the wire's snake_case names to the SDK's camelCase names. */

type CamelName<Name> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelName<Tail>>}`
  : Name;

/** An object with its own keys in camelCase; nested objects stay unchanged. */
export type CamelKeys<Body> = { readonly [Key in keyof Body as CamelName<Key>]: Body[Key] };

export function camelName(name: string): string {
  return name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/**
 * Not deep on purpose: names of variables and metadata belong to the caller and must not change.
 * Nested objects must be converted explicitly.
 */
export function camelKeys<Body extends object>(body: Body): CamelKeys<Body> {
  const entries = Object.entries(body).map(([key, value]) => [camelName(key), value]);
  return Object.fromEntries(entries) as CamelKeys<Body>;
}
