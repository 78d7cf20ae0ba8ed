/** Options and results have camelCase names, and for each of them its snake_case name as well. */
import { camelName } from "./camel-keys.ts";

type SnakeName<Name> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeName<Rest>}`
  : "";

/** Fields that go by their snake_case names, too: what is `exitCode` is also `exit_code`. */
export type WithSnakeNames<Fields> = Fields & {
  readonly [Name in keyof Fields as Exclude<SnakeName<Name>, Name>]: Fields[Name];
};

function snakeName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/**
 * Gives an object the snake_case names of the fields that it has. They cannot be enumerated, so
 * that JSON, a copy or a log has each field once.
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

/** The same options by their camelCase names alone. */
export function camelOptions<Options extends object>(options: Options): Options {
  const camel = { ...options } as Record<string, unknown>;
  for (const [alias, value] of Object.entries(options)) {
    const name = camelName(alias);
    if (name === alias || value === undefined) continue;
    if (camel[name] !== undefined && !Object.is(camel[name], value)) {
      throw new TypeError(`${name} and ${alias} are one option and differ here; give one of them.`);
    }
    camel[name] = value;
  }
  return camel as Options;
}
