/** Checks values against the JSON Schema or Picoschema of an agent. */
import { Ajv } from "ajv";
import type { ErrorObject, ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { picoschema } from "dotprompt";

const MAX_PROBLEMS = 10;

export type JsonSchemaObject = Readonly<Record<string, unknown>>;

/** A schema and the check that it describes. */
export class ValueCheck {
  /** JSON Schema, also where the file has Picoschema. */
  readonly schema: JsonSchemaObject;
  readonly #validate: ValidateFunction;

  private constructor(schema: JsonSchemaObject, validate: ValidateFunction) {
    this.schema = schema;
    this.#validate = validate;
  }

  /** Throws when the schema is neither a valid JSON Schema nor Picoschema. */
  static async compile(given: unknown): Promise<ValueCheck> {
    const schema = (await picoschema(structuredClone(given))) as JsonSchemaObject;
    const { $schema: dialect = "" } = schema;
    const options = { strict: false, allErrors: true, useDefaults: true, validateFormats: false };
    const ajv = String(dialect).includes("2020-12") ? new Ajv2020(options) : new Ajv(options);
    return new ValueCheck(schema, ajv.compile(schema));
  }

  /** What is wrong with the value, in a sentence; undefined when it fits. Fills in defaults. */
  problem(value: unknown): string | undefined {
    if (this.#validate(value)) return undefined;
    const errors = this.#validate.errors ?? [];
    const shown = errors.slice(0, MAX_PROBLEMS).map(describe);
    const more = errors.length - shown.length;
    return [...new Set(shown), ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
  }
}

function describe({ instancePath, keyword, params, message }: ErrorObject): string {
  const where = instancePath === "" ? "the value" : instancePath.slice(1).replaceAll("/", ".");
  const within = instancePath === "" ? "" : ` in ${where}`;
  const named = params as Readonly<Record<string, unknown>>;
  if (keyword === "required") return `${String(named["missingProperty"])} is missing${within}`;
  if (keyword === "additionalProperties")
    return `${String(named["additionalProperty"])} is not known${within}`;
  if (keyword === "enum")
    return `${where} must be one of ${JSON.stringify(named["allowedValues"])}`;
  return `${where} ${message ?? "does not fit"}`;
}
