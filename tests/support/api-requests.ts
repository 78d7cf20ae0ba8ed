/** Requests to every operation of an OpenAPI document: valid, nearly valid, and invalid. */
import fc from "fast-check";

export interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, ApiOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

export interface ApiOperation {
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: "path" | "query" | "header";
    readonly required?: boolean;
    readonly schema: Schema;
  }[];
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: Schema }>>;
  };
  readonly responses: Readonly<Record<string, unknown>>;
}

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
}

/** A request that can be sent unchanged. */
export interface ApiRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** Meaningful values for a daemon with sandboxes, by field name. */
export interface KnownValues {
  /** For `{id}` and similar in paths. */
  readonly inPath: (path: string, name: string) => readonly string[];
  /** For fields of bodies and queries. */
  readonly byField: Readonly<Record<string, readonly unknown[]>>;
}

/** One per line, since they contain blanks and commas. */
const STRANGE_TEXTS = `
 
.
..
/
//
/proc/self/mem
/proc/1/fd/0
/dev/null
/dev/full
../../etc/passwd
a\0b
\u202e
\ud800
-rf
0
-1
1e309
NaN
true
null
%FF
${"x".repeat(256)}
${"x/".repeat(2100)}
${"x".repeat(70_000)}`.split("\n");
const STRANGE_NUMBERS = [0, -0, -1, 0.5, 256, 65_536, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 63), 1e308];

/** The prefix of fields that contain paths as bytes. */
const RAW = "raw_";

const strange = fc.oneof(
  fc.constantFrom<unknown>(...STRANGE_TEXTS, ...STRANGE_NUMBERS, null, true, false, [], {}),
  fc.jsonValue({ maxDepth: 2 }),
  fc.string({ unit: "binary", maxLength: 40 }),
);

/** Requests for one operation. */
export function apiRequests(
  document: ApiDocument,
  path: string,
  operation: ApiOperation,
  known: KnownValues,
): fc.Arbitrary<ApiRequest> {
  const parameters = operation.parameters ?? [];
  const valuesOf = (place: string): fc.Arbitrary<Record<string, unknown>> =>
    mostlyOneWay(
      fc.record(
        Object.fromEntries(
          parameters
            .filter((parameter) => parameter.in === place)
            .map(({ name, schema }) => [name, fieldValue(document, known, name, schema)]),
        ),
        { requiredKeys: [] },
      ),
    );
  const inPath = fc.record(
    Object.fromEntries(
      [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => [
        name,
        often(fc.constantFrom(...known.inPath(path, name)), fc.constantFrom(...STRANGE_TEXTS)),
      ]),
    ),
  );
  return fc
    .record({ inPath, query: valuesOf("query"), headers: valuesOf("header"), body: bodyOf() })
    .map(({ inPath: names, query, headers, body }) => ({
      path: `${path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encode(names[name]))}${queryText(query)}`,
      headers: { ...headerTexts(headers), ...(body?.type && { "content-type": body.type }) },
      ...(body !== undefined && { body: body.content }),
    }));

  function bodyOf(): fc.Arbitrary<{ content: string | Buffer; type?: string } | undefined> {
    const content = operation.requestBody?.content;
    if (content === undefined) return fc.constant(undefined);
    const json = content["application/json"]?.schema;
    if (json !== undefined)
      return often(
        often(value(document, known, json), strange).map((body) => ({
          content: JSON.stringify(body) ?? "",
        })),
        fc.uint8Array({ maxLength: 64 }).map((bytes) => ({ content: Buffer.from(bytes) })),
      );
    if (content["multipart/form-data"] === undefined)
      return fc.uint8Array({ maxLength: 2048 }).map((bytes) => ({ content: Buffer.from(bytes) }));
    return formBody();
  }
}

/** Forms with complete, truncated and unknown parts. */
function formBody(): fc.Arbitrary<{ content: string; type: string }> {
  const name = fc.constantFrom("file", "files", "path", "raw_path", "x", "", "__proto__");
  const part = fc
    .tuple(name, fc.option(fc.constantFrom("a", "..", "", "ü", "x".repeat(300))), fc.string())
    .map(([field, file, content]) => {
      const fileName = file === null ? "" : `; filename="${file}"`;
      return `--x\r\nContent-Disposition: form-data; name="${field}"${fileName}\r\n\r\n${content}\r\n`;
    });
  const torn = fc.tuple(part, fc.nat(100)).map(([text, at]) => text.slice(0, at));
  return fc
    .tuple(fc.array(often(part, torn), { maxLength: 4 }), fc.constantFrom("--x--\r\n", "--x", ""))
    .map(([parts, end]) => ({
      content: parts.join("") + end,
      type: "multipart/form-data; boundary=x",
    }));
}

/** A value that matches the schema, with an unusual one here and there. */
function value(document: ApiDocument, known: KnownValues, schema: Schema): fc.Arbitrary<unknown> {
  const inner = (other: Schema): fc.Arbitrary<unknown> => value(document, known, other);
  if (schema.$ref !== undefined)
    return inner(document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {});
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return fc.oneof(...choices.map(inner));
  switch (schema.type) {
    case "object":
      return objectOf(document, known, schema);
    case "array":
      return fc.array(schema.items === undefined ? strange : inner(schema.items), { maxLength: 3 });
    case "string":
      return often(fc.string({ maxLength: 12 }), fc.constantFrom(...STRANGE_TEXTS));
    case "boolean":
      return fc.boolean();
    case "integer":
    case "number":
      return often(
        fc.integer({ min: clamp(schema.minimum ?? 0), max: clamp(schema.maximum ?? 1000) }),
        fc.constantFrom(...STRANGE_NUMBERS),
      );
    default:
      return strange;
  }
}

function objectOf(
  document: ApiDocument,
  known: KnownValues,
  { properties, required = [], additionalProperties }: Schema,
): fc.Arbitrary<unknown> {
  if (properties === undefined) {
    const values =
      typeof additionalProperties === "object"
        ? value(document, known, additionalProperties)
        : strange;
    return fc.dictionary(fc.string({ maxLength: 8 }), values, { maxKeys: 3 });
  }
  const fields = Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [
      name,
      fieldValue(document, known, name, schema),
    ]),
  );
  return mostlyOneWay(
    fc.record(fields, { requiredKeys: required.filter((name) => name in fields) }),
  );
}

/** A path given both as text and as bytes is refused before anything else. */
function mostlyOneWay(
  records: fc.Arbitrary<Record<string, unknown>>,
): fc.Arbitrary<Record<string, unknown>> {
  const inOneWay = records.map((fields) =>
    Object.fromEntries(
      Object.entries(fields).filter(
        ([name]) => !name.startsWith(RAW) || !(name.slice(RAW.length) in fields),
      ),
    ),
  );
  return often(inOneWay, records);
}

function fieldValue(
  document: ApiDocument,
  known: KnownValues,
  name: string,
  schema: Schema,
): fc.Arbitrary<unknown> {
  const values = known.byField[name];
  const usual = value(document, known, schema);
  return often(values === undefined ? usual : fc.oneof(fc.constantFrom(...values), usual), strange);
}

function often<A, B>(usual: fc.Arbitrary<A>, rare: fc.Arbitrary<B>): fc.Arbitrary<A | B> {
  return fc.oneof({ arbitrary: usual, weight: 6 }, { arbitrary: rare, weight: 1 });
}

function clamp(bound: number): number {
  return Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, Math.trunc(bound)));
}

function textOf(given: unknown): string {
  return typeof given === "string" ? given : (JSON.stringify(given) ?? "");
}

/** For a text that is not Unicode, the URL has the valid part. Short enough for a request line. */
function encode(given: unknown): string {
  return encodeURIComponent(textOf(given).toWellFormed()).slice(0, 6000).replace(/%.?$/, "");
}

function queryText(query: Readonly<Record<string, unknown>>): string {
  const pairs = Object.entries(query).map(([name, given]) => `${name}=${encode(given)}`);
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

/** Removes what a header cannot contain. */
function headerTexts(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, given]) => [
      name,
      textOf(given)
        .replaceAll(/[^\x20-\x7e]/g, "")
        .slice(0, 500),
    ]),
  );
}
