/** Describes in words what a JSON schema of the OpenAPI document allows. */

/** The parts of a schema that the document uses. */
export interface JsonSchema {
  readonly $ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly format?: string;
  readonly pattern?: string;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: JsonSchema;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: JsonSchema | boolean;
}

/** One field of an object, or of an object inside it. */
export interface Field {
  /** With the parent names, and a `?` if it is optional: `pty.rows`, `chunks[].chunk_base64?`. */
  readonly name: string;
  readonly type: string;
  readonly meaning: string;
}

/** Numbers in a query string are strings in the schema, but readers expect integers. */
const DIGITS = String.raw`^\d{1,16}$`;
/** Not every base64 schema is marked as such, but all have a pattern that begins like this. */
const BASE64_START = "^$|^(?:[0-9a-zA-Z+/]{4})*";

/** `[Session](#session)` for a schema name or a reference. */
export function schemaLink(reference: string): string {
  const name = schemaName(reference.slice(reference.lastIndexOf("/") + 1));
  return `[${name}](#${name.toLowerCase()})`;
}

/** Request schemas have a suffix in the document, which readers do not need. */
export function schemaName(name: string): string {
  return name.replace(/Input$/, "");
}

export function schemaText(schema: JsonSchema): string {
  if (schema.$ref !== undefined) return schemaLink(schema.$ref);
  if (schema.enum !== undefined) return schema.enum.map(code).join(" or ");
  if (schema.const !== undefined) return code(schema.const);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return choices.map(schemaText).join(" or ");
  switch (schema.type) {
    case "string":
      return stringText(schema);
    case "integer":
      return `integer${range(schema)}`;
    case "number":
      return `number${range(schema)}`;
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      return `array of ${schemaText(schema.items ?? {})}`;
    case "object":
      return typeof schema.additionalProperties === "object"
        ? `map of ${schemaText(schema.additionalProperties)}`
        : "object";
    default:
      return "any";
  }
}

/** All fields of an object, with those of nested objects after their parent. */
export function fieldsOf(schema: JsonSchema, above = ""): readonly Field[] {
  if (schema.oneOf?.every(({ properties }) => properties?.["type"]?.const !== undefined) === true)
    return fieldsOfVariants(schema.oneOf);
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const optional = schema.required?.includes(name) === true ? "" : "?";
    const inner = field.type === "array" ? (field.items ?? {}) : field;
    const place = `${above}${name}${field.type === "array" ? "[]" : ""}.`;
    const own = {
      name: `${above}${name}${optional}`,
      type: schemaText(field),
      meaning: field.description ?? "",
    };
    return [own, ...fieldsOf(inner, place)];
  });
}

/** Variants that are distinguished by `type`, and differ only in their `data`. */
function fieldsOfVariants(variants: readonly JsonSchema[]): readonly Field[] {
  const shared = fieldsOf(variants[0] ?? {}).filter(({ name }) => !/^(type|data)\b/.test(name));
  const datas = variants.map(({ properties = {} }) => ({
    name: "data",
    type: fieldsOf(properties["data"] ?? {})
      .map((field) => `\`${field.name}\`: ${field.type}`)
      .join(", "),
    meaning: `For the type ${code(properties["type"]?.const)}`,
  }));
  const type = { name: "type", type: "string", meaning: "One of the types below" };
  return [type, ...shared, ...datas];
}

function stringText({ format, pattern, maxLength }: JsonSchema): string {
  if (format === "date-time") return "time (ISO 8601)";
  if (pattern?.startsWith(BASE64_START) === true) return "base64";
  if (format === "binary") return "bytes";
  if (pattern === DIGITS) return "integer";
  if (pattern !== undefined) return `string matching ${code(pattern)}`;
  return maxLength === undefined ? "string" : `string of at most ${maxLength} characters`;
}

function range({ minimum, maximum }: JsonSchema): string {
  const most = maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum;
  if (minimum !== undefined && most !== undefined) return ` from ${minimum} to ${most}`;
  if (most !== undefined) return ` up to ${most}`;
  return minimum === undefined || minimum === 0 ? "" : ` from ${minimum}`;
}

function code(value: unknown): string {
  return `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;
}
