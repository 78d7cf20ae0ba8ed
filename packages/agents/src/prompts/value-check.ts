/** Checks values against the JSON Schema or Picoschema of an agent. */
import { Ajv } from "ajv";
import type { ErrorObject, ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { picoschema } from "dotprompt";
import { linearPattern } from "./linear-pattern.ts";

const MAX_PROBLEMS = 10;
/** For larger values, only the first problem is reported. */
const MAX_DESCRIBED_LENGTH = 64 * 1024;

export type JsonSchemaObject = Readonly<Record<string, unknown>>;

/** A schema and the check that it describes. */
export class ValueCheck {
  /** JSON Schema, even if the file uses Picoschema. */
  readonly schema: JsonSchemaObject;
  readonly #validate: ValidateFunction;
  readonly #describe: ValidateFunction;

  private constructor(
    schema: JsonSchemaObject,
    validate: ValidateFunction,
    describeAll: ValidateFunction,
  ) {
    this.schema = schema;
    this.#validate = validate;
    this.#describe = describeAll;
  }

  /** Throws if the schema is neither a valid JSON Schema nor Picoschema. */
  static async compile(given: unknown): Promise<ValueCheck> {
    const schema = (await picoschema(structuredClone(given))) as JsonSchemaObject;
    const { $schema: dialect = "" } = schema;
    const Dialect = String(dialect).includes("2020-12") ? Ajv2020 : Ajv;
    const compiled = (allErrors: boolean): ValidateFunction =>
      new Dialect({
        strict: false,
        allErrors,
        useDefaults: true,
        validateFormats: false,
        code: { regExp: linearPattern },
      }).compile(schema);
    return new ValueCheck(schema, compiled(false), compiled(true));
  }

  /**
   * Describes the problem with the value in a sentence; undefined if it is valid. Fills in
   * defaults.
   *
   * SECURITY: a value of megabytes can have millions of problems, and describing them all takes
   * gigabytes. Guarded by value-check.test.ts.
   */
  problem(value: unknown): string | undefined {
    if (this.#validate(value)) return undefined;
    const isSmall = (JSON.stringify(value) ?? "").length <= MAX_DESCRIBED_LENGTH;
    const hasAll = isSmall && !this.#describe(value);
    const errors = (hasAll ? this.#describe : this.#validate).errors ?? [];
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
