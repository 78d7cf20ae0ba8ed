/** Code samples for each call: curl, the TypeScript SDK and the Python client. */
import { sampleRow } from "./sample-table.ts";
import type { SampleRow } from "./sample-table.ts";

/** One entry of `x-codeSamples`, as tools for OpenAPI read it. */
export interface CodeSample {
  readonly lang: "shell" | "typescript" | "python";
  readonly label: string;
  readonly source: string;
}

/** The parts of an operation that its samples need. */
interface SampledOperation {
  readonly security?: readonly object[];
  readonly requestBody?: { readonly content: object };
  readonly responses?: object;
}

export const DAEMON_URL = "http://127.0.0.1:8080";
const PARAMETERS: Readonly<Record<string, string>> = {
  eid: "exe_123",
  name: "build",
  port: "8000",
  path: "",
};

interface Call {
  readonly method: string;
  readonly url: string;
  /** It becomes a WebSocket. */
  readonly isSocket: boolean;
  readonly needsKey: boolean;
  readonly isStream: boolean;
  readonly isForm: boolean;
  readonly row: SampleRow;
}

export function codeSamples(
  method: string,
  path: string,
  operation: SampledOperation,
): readonly CodeSample[] {
  const row = sampleRow(`${method.toUpperCase()} ${path}`);
  const call: Call = {
    method: method.toUpperCase(),
    url: urlOf(path, row),
    isSocket: "101" in (operation.responses ?? {}),
    needsKey: operation.security?.length !== 0,
    isStream: JSON.stringify(operation.responses ?? {}).includes("text/event-stream"),
    isForm: "multipart/form-data" in (operation.requestBody?.content ?? {}),
    row,
  };
  const isWorkspace = path.startsWith("/v1/workspaces/");
  return [
    { lang: "shell", label: "curl", source: curl(call) },
    {
      lang: "typescript",
      label: "TypeScript",
      source: row.typescript === undefined ? fetched(call) : withSdk(row.typescript, isWorkspace),
    },
    {
      lang: "python",
      label: "Python",
      source: row.python === undefined ? opened(call) : withClient(row.python, isWorkspace),
    },
  ];
}

function urlOf(path: string, { query = {} }: SampleRow): string {
  const resource = path.split("/")[2] ?? "";
  const ids: Readonly<Record<string, string>> = {
    sessions: "ses_123",
    workspaces: "notes",
    keys: "key_123",
  };
  const filled = path.replaceAll(/\{([^}]+)\}/g, (_match, name: string) =>
    name === "id" ? (ids[resource] ?? "1") : (PARAMETERS[name] ?? name),
  );
  const text = new URLSearchParams({ ...query }).toString();
  return `${DAEMON_URL}${filled}${text === "" ? "" : `?${text}`}`;
}

/** By hand, because older versions of curl do not support WebSockets; shows the first frames. */
const UPGRADE = [
  `--header "Connection: Upgrade"`,
  `--header "Upgrade: websocket"`,
  `--header "Sec-WebSocket-Version: 13"`,
  `--header "Sec-WebSocket-Key: $(head -c 16 /dev/urandom | base64)"`,
];

function curl({ method, url, isSocket, needsKey, isStream, isForm, row }: Call): string {
  const usual = row.body === undefined && !isForm ? "GET" : "POST";
  const lines = [
    ["curl", (isStream || isSocket) && "--no-buffer", method === "HEAD" && "--head", `"${url}"`]
      .filter((word) => word !== false)
      .join(" "),
    ...(method === usual || method === "HEAD" ? [] : [`--request ${method}`]),
    ...(needsKey ? [`--header "Authorization: Bearer $SANDKASTEN_API_KEY"`] : []),
    ...(isSocket ? UPGRADE : []),
    ...(row.body === undefined ? [] : [`--json '${JSON.stringify(row.body)}'`]),
    ...(row.file === undefined || isForm ? [] : [`--data-binary @${row.file}`]),
    ...(isForm ? [`--form files=@${row.file ?? "file"}`] : []),
  ];
  return lines.join(" \\\n  ");
}

/** Statements that use `client`, `session`, `exec` or `files`, after their declarations. */
function withSdk(statements: string, isWorkspace: boolean): string {
  const { imports, rest } = importsOf(statements);
  const uses = (name: string): boolean => new RegExp(String.raw`\b${name}\.`).test(rest);
  const needsSession = (uses("session") || uses("exec") || uses("files")) && !isWorkspace;
  return [
    ...imports,
    `import { SandboxClient } from "@sandkasten/sdk";`,
    "",
    "const client = new SandboxClient({",
    `  baseUrl: "${DAEMON_URL}",`,
    `  apiKey: process.env.SANDKASTEN_API_KEY,`,
    "});",
    ...(needsSession ? [`const session = await client.getSession("ses_123");`] : []),
    ...(uses("exec") ? [`const exec = session.getExec("exe_123");`] : []),
    ...(uses("files")
      ? [
          isWorkspace
            ? `const files = client.workspaces.files("notes");`
            : "const { files } = session;",
        ]
      : []),
    rest,
  ].join("\n");
}

function withClient(statements: string, isWorkspace: boolean): string {
  const { imports, rest } = importsOf(statements);
  const uses = (name: string): boolean => rest.includes(`${name}.`);
  const needsSession = uses("session") || uses("command") || uses("files");
  return [
    ...imports,
    "from sandkasten import SyncSandboxClient",
    "",
    "# Takes SANDKASTEN_URL and SANDKASTEN_API_KEY from the environment.",
    "client = SyncSandboxClient()",
    ...(needsSession && !isWorkspace ? [`session = client.get_session("ses_123")`] : []),
    ...(uses("command") ? [`command = session.get_exec("exe_123")`] : []),
    ...(uses("files")
      ? [isWorkspace ? `files = client.workspace_files("notes")` : "files = session.files"]
      : []),
    rest,
  ].join("\n");
}

function importsOf(statements: string): { imports: readonly string[]; rest: string } {
  const lines = statements.split("\n");
  const isImport = (line: string): boolean => /^(?:import|from) /.test(line);
  return {
    imports: lines.filter(isImport),
    rest: lines.filter((line) => !isImport(line)).join("\n"),
  };
}

/** A call that the SDK has no method for. */
function fetched({ method, url, needsKey, isStream, row }: Call): string {
  const options = [
    ...(method === "GET" ? [] : [`  method: "${method}",`]),
    ...(needsKey
      ? ["  headers: { Authorization: `Bearer ${process.env.SANDKASTEN_API_KEY}` },"]
      : []),
    ...(row.body === undefined ? [] : [`  body: JSON.stringify(${JSON.stringify(row.body)}),`]),
  ];
  const given = options.length === 0 ? "" : `, {\n${options.join("\n")}\n}`;
  return [
    `const response = await fetch("${url}"${given});`,
    isStream
      ? "for await (const bytes of response.body ?? []) console.log(new TextDecoder().decode(bytes));"
      : "console.log(response.status, await response.text());",
  ].join("\n");
}

/** A call that the Python client has no method for. */
function opened({ method, url, needsKey, isStream, isForm, row }: Call): string {
  const sendsFile = row.file !== undefined && !isForm;
  const options = [
    ...(method === "GET" ? [] : [`    method="${method}",`]),
    ...(needsKey
      ? [`    headers={"Authorization": "Bearer " + os.environ["SANDKASTEN_API_KEY"]},`]
      : []),
    ...(row.body === undefined
      ? []
      : [`    data=json.dumps(${JSON.stringify(row.body)}).encode(),`]),
    ...(sendsFile ? [`    data=Path("${row.file}").read_bytes(),`] : []),
  ];
  if (isForm) return postedForm(url, row.file ?? "file");
  return [
    ...(row.body === undefined ? [] : ["import json"]),
    ...(needsKey ? ["import os"] : []),
    ...(sendsFile ? ["from pathlib import Path"] : []),
    "from urllib.request import Request, urlopen",
    "",
    ...(options.length === 0
      ? [`request = Request("${url}")`]
      : ["request = Request(", `    "${url}",`, ...options, ")"]),
    "with urlopen(request) as response:",
    ...(isStream
      ? ["    for line in response:", "        print(line.decode())"]
      : ["    print(response.status, response.read())"]),
  ].join("\n");
}

/** The standard library has no forms; the Python client itself uses httpx2. */
function postedForm(url: string, file: string): string {
  return [
    "import os",
    "from pathlib import Path",
    "import httpx2",
    "",
    "response = httpx2.post(",
    `    "${url}",`,
    `    headers={"Authorization": "Bearer " + os.environ["SANDKASTEN_API_KEY"]},`,
    `    files={"files": ("${file}", Path("${file}").read_bytes())},`,
    ")",
    "print(response.status_code, response.json())",
  ].join("\n");
}
