/** Renders the OpenAPI document as a Markdown page. */
import type { OpenApiDocument, Operation } from "../openapi.ts";
import { fieldsOf, schemaLink, schemaName, schemaText } from "./schema-text.ts";
import type { Field, JsonSchema } from "./schema-text.ts";

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
}

type Content = Readonly<Record<string, { readonly schema?: JsonSchema }>>;

interface ApiAnswer {
  readonly description: string;
  readonly content?: Content;
}

/** An operation with the parts that its declared type leaves open. */
interface ApiOperation extends Omit<Operation, "parameters" | "requestBody" | "responses"> {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Content };
  readonly responses?: Readonly<Record<string, ApiAnswer>>;
}

interface Entry {
  /** As in `POST /v1/sessions`. */
  readonly name: string;
  readonly operation: ApiOperation;
}

const JSON_TYPE = "application/json";

export function apiPage(document: OpenApiDocument): string {
  const entries = entriesOf(document);
  const shared = sharedErrors(entries);
  const parts = [
    introduction(shared),
    ...(document.tags ?? []).flatMap((tag) => [
      `## ${tag.name}`,
      `${tag.description ?? ""}.`,
      ...entries
        .filter(({ operation }) => operation.tags?.includes(tag.name) === true)
        .flatMap((entry) => operationParts(entry, entries, shared)),
    ]),
    "## Schemas",
    ...Object.entries(document.components.schemas)
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .flatMap(([name, schema]) => [
        `### ${schemaName(name)}`,
        fieldTable(fieldsOf(schema as JsonSchema)),
      ]),
  ];
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

function introduction(shared: ReadonlySet<string>): string {
  return `# HTTP API

Generated from the OpenAPI document that the daemon serves. Its sources are the routes in \`packages/daemon/src/surfaces/native/routes\` and the schemas in \`packages/protocol/src/api\`.

A running daemon serves this document at \`/openapi.json\`, and an interactive reference with samples for curl, TypeScript and Python at \`/docs\`. The page needs no key; requests sent from it do.

Send \`Authorization: Bearer <key>\` with every request, except where a call says that it needs no key. Bodies are JSON regardless of their \`Content-Type\`, except where bytes or a form are expected. \`null\` means that a field is absent, and so does an empty string where a field cannot be empty. Unknown fields are ignored and named in the response header \`X-Sandkasten-Ignored\`; a known field with an invalid value is an error. Every response has \`X-Request-ID\`: the one of the request, if it has at most 128 visible ASCII characters without double quotes, commas, \`<\`, \`>\` and backslashes, or a new one.

A \`?\` after a name marks an optional field.

A failed request returns an [Error](#error) with a code from [the table of errors](errors.md). Every call that needs a key can return ${[...shared].join(", ")}. Each call lists only its additional codes.`;
}

function entriesOf({ paths }: OpenApiDocument): readonly Entry[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      operation: operation as ApiOperation,
    })),
  );
}

function operationParts(
  { name, operation }: Entry,
  entries: readonly Entry[],
  shared: ReadonlySet<string>,
): readonly string[] {
  const { summary = "", description = "" } = operation;
  const twin = entries.find(
    (other) => other.name === name.replace("/v1/workspaces/{id}/fs", "/v1/sessions/{id}/fs"),
  );
  if (twin !== undefined && twin.name !== name && isLike(twin.operation, operation))
    return [`### ${name}`, `${summary}. Like \`${twin.name}\`, for a workspace.`];
  return [
    `### ${name}`,
    [`${summary}.`, description, accessText(operation)].filter((text) => text !== "").join(" "),
    parameterTable(operation.parameters ?? []),
    bodyText(operation),
    answersText(operation, shared),
  ];
}

/** Whether two operations differ only in their path. */
function isLike(one: ApiOperation, other: ApiOperation): boolean {
  const plain = ({ parameters = [], requestBody, responses, security }: ApiOperation): string => {
    const named = parameters.filter((parameter) => parameter.in !== "path");
    return JSON.stringify([named, requestBody, responses, security]);
  };
  return plain(one) === plain(other);
}

function accessText({ security }: ApiOperation): string {
  if (security === undefined) return "";
  if (security.length === 0) return "Needs no key.";
  return security.some((scheme) => "password" in scheme)
    ? "Also accepts the key as an HTTP Basic password."
    : "";
}

/** Path parameters are omitted, since the heading shows them. */
function parameterTable(parameters: readonly Parameter[]): string {
  const named = parameters.filter((parameter) => parameter.in !== "path");
  if (named.length === 0) return "";
  return table(
    ["parameter", "in", "type", "meaning"],
    named.map((parameter) => [
      `\`${parameter.name}${parameter.required === true ? "" : "?"}\``,
      parameter.in,
      schemaText(parameter.schema),
      parameter.description ?? "",
    ]),
  );
}

function bodyText({ requestBody }: ApiOperation): string {
  if (requestBody === undefined) return "";
  const [type = "", { schema = {} } = {}] = Object.entries(requestBody.content)[0] ?? [];
  if (schema.$ref !== undefined) return `Body: ${schemaLink(schema.$ref)}.`;
  const fields = fieldsOf(schema);
  const what = type === JSON_TYPE ? "" : ` as \`${type}\``;
  if (fields.length === 0) return type === JSON_TYPE ? "" : `Body: ${schemaText(schema)}${what}.`;
  return `Body${what}:\n\n${fieldTable(fields)}`;
}

function answersText({ responses = {} }: ApiOperation, shared: ReadonlySet<string>): string {
  const answers = Object.entries(responses);
  const good = answers
    .filter(([, answer]) => codesOf(answer).length === 0)
    .map(([status, answer]) => `**${status}** ${answerText(answer)}.`);
  const errors = answers
    .map(([status, answer]) => [status, ...codesOf(answer).filter((code) => !shared.has(code))])
    .filter(({ length }) => length > 1)
    .map((words) => words.join(" "));
  return [...good, ...(errors.length === 0 ? [] : [`Errors: ${errors.join(", ")}.`])].join(" ");
}

function answerText({ description, content = {} }: ApiAnswer): string {
  const [type = "", { schema = {} } = {}] = Object.entries(content)[0] ?? [];
  const words = description.charAt(0).toLowerCase() + description.slice(1);
  if (type !== JSON_TYPE) return type === "" ? words : `${words}, as \`${type}\``;
  // The document says "Success" if a route says nothing.
  const what = words === "success" ? "" : `${words}: `;
  const fields = fieldsOf(schema);
  if (fields.length === 0) return `${what}${schemaText(schema)}`;
  return what + fields.map(({ name, type: kind }) => `\`${name}\`: ${kind}`).join(", ");
}

/** The error codes, with their backticks as in the document. */
function codesOf({ description }: ApiAnswer): readonly string[] {
  return [...description.matchAll(/^(`[A-Z_]+`): /gm)].map(([, code = ""]) => code);
}

/** Errors that every call with a key may return. */
function sharedErrors(entries: readonly Entry[]): ReadonlySet<string> {
  const sets = entries
    .filter(({ operation }) => operation.security?.length !== 0)
    .map(({ operation }) => new Set(Object.values(operation.responses ?? {}).flatMap(codesOf)));
  const [first = new Set<string>(), ...rest] = sets;
  return rest.reduce((left, next) => left.intersection(next), first);
}

function fieldTable(fields: readonly Field[]): string {
  return table(
    ["field", "type", "meaning"],
    fields.map(({ name, type, meaning }) => [`\`${name}\``, type, meaning]),
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", String.raw`\|`)).join(" | ")} |`;
  return [line(head), `|${head.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}
