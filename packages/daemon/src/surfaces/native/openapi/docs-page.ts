/** The OpenAPI document as a page to read: no script, nothing from elsewhere. */
import { hash } from "node:crypto";
import type { OpenApiDocument, Operation } from "./openapi.ts";

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 0.875em/1.5 ui-monospace, monospace; }
pre { padding: 0.75rem; overflow-x: auto; border: 1px solid #8886; border-radius: 6px; }
details { border-top: 1px solid #8884; padding: 0.4rem 0; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; }
dt { font-weight: 600; margin-top: 0.5rem; }
h2 { margin-top: 2.5rem; }
`;

/**
 * SECURITY: the page may load and run nothing but this style, so that text in the document, escaped
 * or not, stays text (threat: control characters). Guarded by "the page of the API" in openapi.test.ts.
 */
export const DOCS_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${hash("sha256", STYLE, "base64")}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

interface Entry {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

export function docsPage(document: OpenApiDocument): string {
  const entries = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ method, path, operation })),
  );
  const { title, version, description = "" } = document.info;
  const heading = `${escapeHtml(title)} ${escapeHtml(version)}`;
  return [
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${heading}</title>`,
    `<meta name="viewport" content="width=device-width"><style>${STYLE}</style></head><body>`,
    `<h1>${heading}</h1><p>${escapeHtml(description)}</p>`,
    `<p>Every request needs <code>Authorization: Bearer &lt;key&gt;</code>. The same as a document for programs: <a href="/openapi.json">openapi.json</a>.</p>`,
    ...(document.tags ?? []).map((tag) => section(tag, entries)),
    `<h2>Schemas</h2>`,
    ...Object.entries(document.components.schemas).map(([name, schema]) =>
      schemaPart(name, schema),
    ),
    "</body></html>",
  ].join("\n");
}

function section(
  tag: { readonly name: string; readonly description?: string },
  entries: readonly Entry[],
): string {
  const own = entries.filter(({ operation }) => operation.tags?.includes(tag.name) === true);
  const intro = `<h2>${escapeHtml(tag.name)}</h2><p>${escapeHtml(tag.description ?? "")}</p>`;
  return [intro, ...own.map(operationPart)].join("\n");
}

function operationPart({ method, path, operation }: Entry): string {
  return [
    `<details><summary><b>${escapeHtml(method.toUpperCase())}</b> <code>${escapeHtml(path)}</code> ${escapeHtml(operation.summary ?? "")}</summary>`,
    operation.description === undefined ? "" : `<p>${inline(operation.description)}</p>`,
    jsonPart("Parameters", operation.parameters),
    jsonPart("Body", operation.requestBody),
    `<dl>${Object.entries(operation.responses ?? {})
      .map(answerPart)
      .join("")}</dl>`,
    "</details>",
  ].join("\n");
}

function answerPart([status, answer]: [string, { readonly description: string }]): string {
  const { description, ...rest } = answer;
  return `<dt>${escapeHtml(status)}</dt><dd>${inline(description)}${json(rest)}</dd>`;
}

function schemaPart(name: string, schema: unknown): string {
  return `<details id="${escapeHtml(name)}"><summary><code>${escapeHtml(name)}</code></summary>${json(schema)}</details>`;
}

function jsonPart(title: string, value: unknown): string {
  return value === undefined ? "" : `<h4>${title}</h4>${json(value)}`;
}

function json(value: unknown): string {
  return `<pre>${escapeHtml(JSON.stringify(value, undefined, 2))}</pre>`;
}

/** Code between backticks, and new paragraphs. */
function inline(text: string): string {
  return escapeHtml(text)
    .replaceAll(/`([^`]+)`/g, "<code>$1</code>")
    .replaceAll("\n\n", "<br>");
}

function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replaceAll(/[&<>"']/g, (sign) => entities[sign] ?? sign);
}
