/** Turns the snake_case names of the wire into the camelCase names of the SDK. */

type CamelName<Name> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelName<Tail>>}`
  : Name;

/** An object with its own keys in camelCase; what lies deeper stays as it is. */
export type CamelKeys<Body> = { readonly [Key in keyof Body as CamelName<Key>]: Body[Key] };

export function camelName(name: string): string {
  return name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/**
 * Not deep on purpose: names of variables and metadata are the caller's and must come back as they
 * were. Whoever has an object inside an object says so.
 */
export function camelKeys<Body extends object>(body: Body): CamelKeys<Body> {
  const entries = Object.entries(body).map(([key, value]) => [camelName(key), value]);
  return Object.fromEntries(entries) as CamelKeys<Body>;
}
