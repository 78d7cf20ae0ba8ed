/** Options and results have camelCase names, and also a snake_case alias for each. */
import { camelName } from "./camel-keys.ts";

type SnakeName<Name> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeName<Rest>}`
  : "";

/** Fields with snake_case aliases: `exitCode` is also `exit_code`. */
export type WithSnakeNames<Fields> = Fields & {
  readonly [Name in keyof Fields as Exclude<SnakeName<Name>, Name>]: Fields[Name];
};

function snakeName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/**
 * Adds the snake_case aliases of an object's fields. They are not enumerable, so JSON, a copy or a
 * log contains each field once.
 */
export function withSnakeNames<Fields extends object>(fields: Fields): WithSnakeNames<Fields>;
export function withSnakeNames(fields: object): object {
  for (const name of Object.keys(fields)) {
    const alias = snakeName(name);
    if (alias in fields) continue;
    Object.defineProperty(fields, alias, { get: () => Reflect.get(fields, name) });
  }
  return fields;
}

/** The same options with camelCase names only. */
export function camelOptions<Options extends object>(options: Options): Options {
  const camel = { ...options } as Record<string, unknown>;
  for (const [alias, value] of Object.entries(options)) {
    const name = camelName(alias);
    if (name === alias || value === undefined) continue;
    if (camel[name] !== undefined && !Object.is(camel[name], value)) {
      throw new TypeError(
        `${name} and ${alias} are the same option but have different values; pass one of them.`,
      );
    }
    camel[name] = value;
  }
  return camel as Options;
}
