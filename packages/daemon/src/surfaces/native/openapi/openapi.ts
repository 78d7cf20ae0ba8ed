/** The OpenAPI document, generated from the schemas that validate requests. */
import swagger from "@fastify/swagger";
import type { RouteOptions } from "fastify";
import { jsonSchemaTransform, jsonSchemaTransformObject } from "fastify-type-provider-zod";
import type { App } from "../../http/app.ts";
import { codeSamples } from "./samples/code-samples.ts";
import { sampleRow } from "./samples/sample-table.ts";
import type { CodeSample } from "./samples/code-samples.ts";

/** The parts of a document that are needed here. */
export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description?: string;
  };
  readonly tags?: readonly { readonly name: string; readonly description?: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> };
}

export interface Operation {
  readonly operationId?: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly unknown[];
  readonly requestBody?: RequestBody;
  readonly responses?: Readonly<Record<string, { readonly description: string }>>;
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly "x-codeSamples"?: readonly CodeSample[];
}

interface RequestBody {
  readonly required?: boolean;
  readonly content: Readonly<
    Record<string, { readonly schema: { readonly $ref?: string }; readonly example?: unknown }>
  >;
}

const TAGS = [
  { name: "sessions", description: "Create, list, renew, pause and destroy sessions" },
  { name: "commands", description: "Run commands, stream their output and write to their stdin" },
  { name: "files", description: "Read, write and list the files of a session" },
  {
    name: "ports",
    description: "Preview web pages that a session serves, and connect to its ports",
  },
  {
    name: "networks",
    description: "Control and list a session's outbound connections",
  },
  {
    name: "workspaces",
    description:
      "Persistent directories that outlive sessions, and their files. An absolute path that does not begin with /workspace or /work is relative to the workspace's root. An id can have the prefix `sandkasten-ws-`",
  },
  { name: "events", description: "Stream and replay events" },
  { name: "keys", description: "Manage keys. Requires an administrator's key" },
  { name: "images", description: "Manage the images that sandboxes are created from" },
  { name: "daemon", description: "Health, version and metrics of the daemon" },
];

export async function describeApi(app: App, version: string): Promise<void> {
  await app.register(swagger, {
    exposeHeadRoutes: true,
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Sandkasten",
        version,
        description: [
          "Linux sandboxes for AI agents.",
          "In requests, `null` means that a field is absent, and so does an empty string where a field cannot be empty.",
          "Unknown fields are ignored and named in the response header `X-Sandkasten-Ignored`.",
        ].join(" "),
      },
      servers: [{ url: "/", description: "The daemon that serves this document" }],
      tags: TAGS,
      components: {
        securitySchemes: {
          bearer: { type: "http", scheme: "bearer" },
          password: { type: "http", scheme: "basic", description: "The key as password" },
        },
      },
      security: [{ bearer: [] }],
    },
    transform: (input) => {
      const { schema, url } = jsonSchemaTransform(input);
      return { schema: { ...schema, ...beyondSchemas(input.route) }, url };
    },
    transformObject: jsonSchemaTransformObject,
  });
}

/** Adds the routes' settings to the document: how they accept the key, and bodies that are not JSON. */
function beyondSchemas({ config }: RouteOptions): object {
  return {
    ...(config?.access === "open" && { security: [] }),
    ...(config?.access === "browser" && { security: [{ bearer: [] }, { password: [] }] }),
    ...((config?.body === "bytes" || config?.body === "form") && { body: bodySchema(config.body) }),
  };
}

function bodySchema(body: "bytes" | "form"): object {
  const file = {
    type: "string",
    format: "binary",
    contentMediaType: "application/octet-stream",
  };
  if (body === "bytes") return file;
  return { type: "object", properties: { path: { type: "string" }, file, files: file } };
}

/** Call it when the app is ready. */
export function openApiDocument(app: App): OpenApiDocument {
  const document = app.swagger() as unknown as OpenApiDocument;
  const { components } = document;
  const paths = Object.fromEntries(
    Object.entries(document.paths).map(([given, operations]) => {
      const path = given.replace("{*}", "{path}");
      const described = path === given ? operations : withRestOfPath(operations);
      return [path, finished(path, described, components.schemas)];
    }),
  );
  return {
    ...document,
    paths,
    components: { ...components, schemas: usedSchemas(paths, components.schemas) },
  };
}

/** OpenAPI has no wildcards, and every name in a path must be a parameter. */
function withRestOfPath(
  operations: Readonly<Record<string, Operation>>,
): Readonly<Record<string, Operation>> {
  const rest = {
    name: "path",
    in: "path",
    required: true,
    description: "The path on the web server. It can be empty and contain slashes",
    schema: { type: "string" },
  };
  return Object.fromEntries(
    Object.entries(operations).map(([method, operation]) => [
      method,
      { ...operation, parameters: [...(operation.parameters ?? []), rest] },
    ]),
  );
}

/** Adds what the generator leaves out. */
function finished(
  path: string,
  operations: Readonly<Record<string, Operation>>,
  schemas: Readonly<Record<string, unknown>>,
): Readonly<Record<string, Operation>> {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== "" && word !== "v1");
  const name = words.map((word) => `${word[0]?.toUpperCase() ?? ""}${word.slice(1)}`).join("");
  return Object.fromEntries(
    Object.entries(operations).map(([method, operation]) => [
      method,
      {
        operationId: `${method}${name}`,
        ...operation,
        ...(operation.requestBody && {
          requestBody: withExample(
            finishedBody(operation.requestBody, schemas),
            sampleRow(`${method.toUpperCase()} ${path}`).body,
          ),
        }),
        responses: Object.fromEntries(
          Object.entries(operation.responses ?? {}).map(([status, answer]) => [
            status,
            { ...answer, description: answer.description.replace("Default Response", "Success") },
          ]),
        ),
        "x-codeSamples": codeSamples(method, path, operation),
      },
    ]),
  );
}

/** A body is optional if all of its fields are. */
function finishedBody(body: RequestBody, schemas: Readonly<Record<string, unknown>>): RequestBody {
  const { $ref, ...inline } = body.content["application/json"]?.schema ?? { required: [] };
  const schema = $ref === undefined ? inline : schemas[$ref.slice($ref.lastIndexOf("/") + 1)];
  const demands = ["required", "anyOf", "allOf"];
  return { ...body, required: demands.some((name) => Object.hasOwn(schema as object, name)) };
}

/** The example that a page for trying requests offers. */
function withExample(body: RequestBody, example: unknown): RequestBody {
  const json = body.content["application/json"];
  if (example === undefined || json === undefined) return body;
  return { ...body, content: { ...body.content, "application/json": { ...json, example } } };
}

/** The generator emits every schema as input and as output; most are used only as one of them. */
function usedSchemas(
  paths: unknown,
  schemas: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const used = new Set<string>();
  const look = (value: unknown): void => {
    for (const [, name = ""] of JSON.stringify(value).matchAll(
      /"#\/components\/schemas\/([^"]+)"/g,
    )) {
      if (used.has(name)) continue;
      used.add(name);
      look(schemas[name] ?? null);
    }
  };
  look(paths);
  return Object.fromEntries(Object.entries(schemas).filter(([name]) => used.has(name)));
}
