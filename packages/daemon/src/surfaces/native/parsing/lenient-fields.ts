/** Takes requests as newer, older and typed clients send them, where that cannot change what is meant. */
import { z } from "zod";

export interface Understood {
  readonly data: unknown;
  /** Fields that the schema does not have, as `limits.memory`. */
  readonly ignored: readonly string[];
}

interface Field {
  /** `""` stands for nothing here: the field may be absent and cannot be empty. */
  readonly blankIsAbsent: boolean;
  /** What is in it, when it is an object or a list of them. */
  readonly inside: Shape | undefined;
}
interface Shape {
  readonly fields: ReadonlyMap<string, Field>;
  /** Unknown fields are kept, to be refused. */
  readonly isStrict: boolean;
}

/**
 * For a schema: what is meant by a request. `null` means that a field is absent, and so does `""`
 * where a field cannot be empty, as clients with zero values send them. Unknown fields are left out,
 * except where the schema refuses them.
 */
export function lenient(schema: z.ZodType): (data: unknown) => Understood {
  const shape = shapeOf(schema);
  return (data) => {
    const ignored: string[] = [];
    return {
      data: shape === undefined ? data : understood(shape, data, "", ignored),
      ignored,
    };
  };
}

function understood(shape: Shape, data: unknown, prefix: string, ignored: string[]): unknown {
  if (typeof data !== "object" || data === null) return data;
  if (Array.isArray(data))
    return data.map((item, index) => understood(shape, item, `${prefix}${index}.`, ignored));
  const meant: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(data)) {
    const field = shape.fields.get(name);
    if (field === undefined && shape.isStrict) meant[name] = value;
    else if (field === undefined) ignored.push(prefix + name);
    else if (value === null || (value === "" && field.blankIsAbsent)) continue;
    else
      meant[name] = field.inside
        ? understood(field.inside, value, `${prefix}${name}.`, ignored)
        : (value as unknown);
  }
  return meant;
}

function shapeOf(schema: z.ZodType): Shape | undefined {
  const inner = withoutOptional(schema);
  if (inner instanceof z.ZodArray) return shapeOf(inner.element as z.ZodType);
  if (!(inner instanceof z.ZodObject)) return undefined;
  const fields = Object.entries(inner.shape as Readonly<Record<string, z.ZodType>>).map(
    ([name, field]): [string, Field] => [
      name,
      {
        blankIsAbsent: field instanceof z.ZodOptional && refusesBlankText(field),
        inside: shapeOf(field),
      },
    ],
  );
  return { fields: new Map(fields), isStrict: inner.def.catchall instanceof z.ZodNever };
}

/** A number refuses it as well, but for being a text: that is a mistake, and not a zero value. */
function refusesBlankText(field: z.ZodType): boolean {
  const { error } = field.safeParse("");
  return error !== undefined && error.issues[0]?.code !== "invalid_type";
}

function withoutOptional(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodOptional ? (schema.unwrap() as z.ZodType) : schema;
}
