/** Accepts requests of newer, older and typed clients, as long as their meaning is unambiguous. */
import { z } from "zod";

export interface Understood {
  readonly data: unknown;
  /** Unknown fields, as `limits.memory`. */
  readonly ignored: readonly string[];
}

interface Field {
  /** `""` counts as absent: the field is optional and cannot be empty. */
  readonly blankIsAbsent: boolean;
  /** The nested shape, if it is an object or a list of them. */
  readonly inside: Shape | undefined;
}
interface Shape {
  readonly fields: ReadonlyMap<string, Field>;
  /** Unknown fields are kept, so they are refused. */
  readonly isStrict: boolean;
}

/**
 * Interprets a request for a schema. `null` means that a field is absent, and so does `""` where a
 * field cannot be empty, as clients with zero values send them. Unknown fields are removed, except
 * where the schema refuses them.
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
  if (inner instanceof z.ZodUnion) return onlyShapeOf(inner.options as readonly z.ZodType[]);
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

/** Between several shapes, a field's name would not say which of them is meant. */
function onlyShapeOf(options: readonly z.ZodType[]): Shape | undefined {
  const shapes = options.map(shapeOf).filter((shape) => shape !== undefined);
  return shapes.length === 1 ? shapes[0] : undefined;
}

/** A number also refuses it, but because it is text: that is a mistake, not a zero value. */
function refusesBlankText(field: z.ZodType): boolean {
  const { error } = field.safeParse("");
  return error !== undefined && error.issues[0]?.code !== "invalid_type";
}

function withoutOptional(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodOptional ? (schema.unwrap() as z.ZodType) : schema;
}
