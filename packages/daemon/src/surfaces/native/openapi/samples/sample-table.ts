/**
 * What the generated samples cannot know: example values, and each client's method for the call. An
 * operation without a row, or without a method, gets a plain HTTP request in that language.
 */

export interface SampleRow {
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The file that is sent as the body, by its local name. */
  readonly file?: string;
  /** Uses `client`, `session`, `exec` and `files`, which the generator declares. */
  readonly typescript?: string;
  readonly python?: string;
}

const COMMAND = { cmd: "echo hello", timeout_ms: 5000 };

const ROWS: Readonly<Record<string, SampleRow>> = {
  "GET /healthz": {
    typescript: `console.log(await client.health());`,
    python: `print(client.health())`,
  },
  "GET /v1/version": {
    typescript: `console.log(await client.version());`,
    python: `print(client.version())`,
  },

  "POST /v1/sessions": {
    body: { image: "python", ttl_seconds: 600 },
    typescript: `const created = await client.createSession({ image: "python", ttlSeconds: 600 });\nconsole.log(created.id);`,
    python: `created = client.create_session(image="python", ttl_seconds=600)\nprint(created.id)`,
  },
  "GET /v1/sessions": {
    query: { status: "running", limit: "20" },
    typescript: `for (const { id, expiresAt } of await client.listSessions({ status: "running", limit: 20 }))\n  console.log(id, expiresAt);`,
    python: `for running in client.sessions(status="running"):\n    print(running.id)`,
  },
  "GET /v1/sessions/{id}": {
    typescript: `console.log(session.status, session.expiresAt);`,
    python: `print(session.refresh())`,
  },
  "DELETE /v1/sessions/{id}": {
    typescript: `await session.destroy();`,
    python: `session.destroy()`,
  },
  "GET /v1/sessions/{id}/stats": {
    typescript: `console.log(await session.stats());`,
    python: `print(session.stats())`,
  },
  "GET /v1/sessions/{id}/isolation": {
    typescript: `console.log(await session.isolation());`,
    python: `print(session.isolation())`,
  },
  "POST /v1/sessions/{id}/pause": {
    typescript: `await session.pause();`,
    python: `session.pause()`,
  },
  "POST /v1/sessions/{id}/resume": {
    typescript: `await session.resume();`,
    python: `session.resume()`,
  },
  "POST /v1/sessions/{id}/renew": {
    body: { ttl_seconds: 600 },
    typescript: `const { expiresAt } = await session.renew({ ttlSeconds: 600 });\nconsole.log(expiresAt);`,
    python: `print(session.renew(ttl_seconds=600))`,
  },

  "POST /v1/sessions/{id}/commit": {
    body: { reference: "local/tools:1" },
    typescript: `const image = await session.commit("local/tools:1");\nconsole.log(image.reference);`,
    python: `print(session.commit("local/tools:1"))`,
  },

  "GET /v1/events": {
    query: { types: "session", follow: "false" },
    typescript: `for await (const event of client.events({ types: ["session"] }))\n  console.log(event.time, event.type);`,
  },
  "GET /v1/sessions/{id}/events": {
    query: { from: "start", follow: "false" },
    typescript: `for await (const event of session.events({ from: "start" })) console.log(event.type, event.data);`,
  },

  "POST /v1/keys": {
    body: { name: "ci", scope: "use", expires_in_seconds: 86_400 },
    typescript: `const { key } = await client.keys.create("ci", { expiresInSeconds: 86_400 });\nconsole.log(key);`,
  },
  "GET /v1/keys": { typescript: `console.log(await client.keys.list());` },
  "DELETE /v1/keys/{id}": { typescript: `await client.keys.revoke("key_123");` },

  "POST /v1/sessions/{id}/exec": {
    body: COMMAND,
    typescript: `const result = await session.exec("echo hello", { timeoutMs: 5_000 });\nconsole.log(result.exitCode, result.stdout);`,
    python: `result = session.exec("echo hello", timeout_ms=5000)\nprint(result.exit_code, result.stdout)`,
  },
  "POST /v1/sessions/{id}/exec/stream": {
    body: COMMAND,
    typescript: `const stream = session.stream("echo hello", { timeoutMs: 5_000 });\nfor await (const chunk of stream) console.log(chunk.stream, chunk.text);\nconsole.log((await stream.result).exitCode);`,
    python: `stream = session.exec_stream("echo hello", timeout_ms=5000)\nfor chunk in stream:\n    print(chunk.stream, chunk.text)\nprint(stream.result)`,
  },
  "POST /v1/sessions/{id}/execs": {
    body: { cmd: ["sleep", "60"] },
    typescript: `const started = await session.start(["sleep", "60"]);\nconsole.log(started.id);`,
    python: `started = session.start(["sleep", "60"])\nprint(started.id)`,
  },
  "GET /v1/sessions/{id}/execs": {
    query: { limit: "20" },
    typescript: `for await (const { execId, cmd, status } of session.execs()) console.log(execId, cmd, status);`,
    python: `for info in session.execs():\n    print(info)`,
  },
  "GET /v1/sessions/{id}/execs/{eid}": {
    typescript: `console.log(await exec.info());`,
    python: `print(command.info())`,
  },
  "GET /v1/sessions/{id}/execs/{eid}/output": {
    query: { cursor: "0", wait_ms: "100" },
    typescript: `const page = await exec.read({ cursor: 0, waitMs: 100 });\nconsole.log(page.chunks, page.nextCursor);`,
    python: `page = command.read(cursor=0, wait_ms=100)\nprint(page.chunks, page.next_cursor)`,
  },
  "GET /v1/sessions/{id}/execs/{eid}/stream": {
    query: { cursor: "0" },
    typescript: `for await (const chunk of exec.follow({ cursor: 0 })) console.log(chunk.text);`,
    python: `for chunk in command.follow(cursor=0):\n    print(chunk.text)`,
  },
  "POST /v1/sessions/{id}/execs/{eid}/wait": {
    body: { timeout_ms: 100 },
    typescript: `const waited = await exec.wait({ timeoutMs: 100 });\nconsole.log(waited.status, waited.exitCode);`,
    python: `waited = command.wait(timeout_ms=100)\nprint(waited.status, waited.exit_code)`,
  },
  "POST /v1/sessions/{id}/execs/{eid}/signal": {
    body: { signal: "TERM" },
    typescript: `await exec.signal("TERM");`,
    python: `command.signal("TERM")`,
  },
  "POST /v1/sessions/{id}/execs/{eid}/cancel": {
    typescript: `await exec.cancel();`,
    python: `command.cancel()`,
  },
  "POST /v1/sessions/{id}/execs/{eid}/stdin": {
    body: { text: "yes\n" },
    typescript: String.raw`await exec.writeStdin("yes\n");
await exec.closeStdin();`,
    python: String.raw`command.write_stdin("yes\n")
command.close_stdin()`,
  },
  "POST /v1/sessions/{id}/execs/{eid}/resize": {
    body: { rows: 40, cols: 120 },
    typescript: `await exec.resize({ rows: 40, cols: 120 });`,
    python: `command.resize(40, 120)`,
  },
  "GET /v1/sessions/{id}/pty": {
    query: { rows: "24", cols: "80" },
    typescript: String.raw`using pty = await session.pty({ rows: 24, cols: 80 });
pty.write("exit\r");
const decoder = new TextDecoder();
for await (const bytes of pty) console.log(decoder.decode(bytes, { stream: true }));`,
    python: String.raw`with session.pty(rows=24, cols=80) as pty:
    pty.write("exit\r")
    for output in pty:
        print(output)`,
  },

  "GET /v1/sessions/{id}/shells": {
    typescript: `console.log(await session.shells());`,
    python: `print(session.shells())`,
  },
  "DELETE /v1/sessions/{id}/shells/{name}": {
    typescript: `await session.shell("build").close();`,
    python: `session.close_shell("build")`,
  },

  "GET /v1/sessions/{id}/ports": {
    typescript: `for (const { port, process } of await session.ports()) console.log(port, process);`,
    python: `for port in session.ports():\n    print(port)`,
  },
  "POST /v1/sessions/{id}/ports/{port}/url": {
    body: { expires_in_seconds: 600 },
    typescript: `console.log(await session.url(8000, { expiresInSeconds: 600 }));`,
    python: `print(session.url(8000, expires_in_seconds=600))`,
  },
  "GET /v1/sessions/{id}/ports/{port}/connect": {
    typescript: String.raw`using connection = await session.connect(8000);
const writer = connection.writable.getWriter();
await writer.write(new TextEncoder().encode("HEAD / HTTP/1.0\r\n\r\n"));
for await (const bytes of connection.readable) console.log(new TextDecoder().decode(bytes));`,
    python: String.raw`with session.connect(8000) as connection:
    connection.write(b"HEAD / HTTP/1.0\r\n\r\n")
    print(connection.read())`,
  },

  "PUT /v1/sessions/{id}/network": {
    body: { allow: ["api.example.com"] },
    typescript: `await session.setNetwork({ allow: ["api.example.com"] });`,
    python: `session.set_network({"allow": ["api.example.com"]})`,
  },
  "GET /v1/sessions/{id}/egress": {
    query: { limit: "100" },
    typescript: `const { records } = await session.egress({ limit: 100 });\nfor (const { name, port, verdict } of records) console.log(name, port, verdict);`,
    python: `print(session.egress(limit=100))`,
  },
  "GET /v1/sessions/{id}/egress/stream": {
    typescript: `for await (const record of session.followEgress()) console.log(record.name, record.verdict);`,
    python: `for record in session.follow_egress():\n    print(record["name"], record["verdict"])`,
  },

  "GET /v1/workspaces": {
    typescript: `console.log(await client.workspaces.list());`,
    python: `print(client.list_workspaces())`,
  },
  "GET /v1/workspaces/{id}": { typescript: `console.log(await client.workspaces.get("notes"));` },
  "PUT /v1/workspaces/{id}": {
    typescript: `console.log(await client.workspaces.create("notes"));`,
    python: `print(client.create_workspace("notes"))`,
  },
  "DELETE /v1/workspaces/{id}": {
    typescript: `await client.workspaces.delete("notes");`,
    python: `client.delete_workspace("notes")`,
  },

  "GET /v1/images": {
    typescript: `for (const { reference } of await client.images.list()) console.log(reference);`,
    python: `print(client.list_images())`,
  },
  "DELETE /v1/images": {
    query: { reference: "docker.io/library/alpine:3.20" },
    typescript: `await client.images.remove("docker.io/library/alpine:3.20");`,
    python: `client.remove_image("docker.io/library/alpine:3.20")`,
  },
  "POST /v1/images/pull": {
    body: { reference: "docker.io/library/alpine:3.20" },
    typescript: `const image = await client.images.pull("docker.io/library/alpine:3.20");\nconsole.log(image.reference);`,
  },
  "POST /v1/images/import": {
    query: { reference: "local/tools:1" },
    file: "image.tar",
    typescript: `import { openAsBlob } from "node:fs";\nawait client.images.import("local/tools:1", await openAsBlob("image.tar"));`,
  },
  "POST /v1/images/gc": { typescript: `console.log(await client.images.collectGarbage());` },
};

/** The same for the files of a session and of a workspace. */
const FILE_ROWS: Readonly<Record<string, SampleRow>> = {
  "POST /fs/write": {
    body: { path: "hello.txt", text: "hello\n" },
    typescript: String.raw`await files.write("hello.txt", "hello\n");`,
    python: String.raw`files.write("hello.txt", "hello\n")`,
  },
  "GET /fs/read": {
    query: { path: "hello.txt" },
    typescript: `console.log(await files.readText("hello.txt"));`,
    python: `print(files.read_text("hello.txt"))`,
  },
  "GET /fs": {
    query: { path: "/workspace", recursive: "true" },
    typescript: `for await (const { path, sizeBytes } of files.list("/workspace", { recursive: true }))\n  console.log(path, sizeBytes);`,
    python: `for entry in files.list("/workspace", recursive=True):\n    print(entry)`,
  },
  "DELETE /fs": {
    query: { path: "build", recursive: "true" },
    typescript: `await files.remove("build", { recursive: true });`,
    python: `files.remove("build", recursive=True)`,
  },
  "GET /fs/stat": {
    query: { path: "hello.txt" },
    typescript: `console.log(await files.stat("hello.txt"));`,
    python: `print(files.stat("hello.txt"))`,
  },
  "GET /fs/realpath": {
    query: { path: "hello.txt" },
    typescript: `console.log((await files.realpath("hello.txt")).path);`,
    python: `print(files.realpath("hello.txt"))`,
  },
  "POST /fs/mkdir": {
    body: { path: "build" },
    typescript: `await files.mkdir("build");`,
    python: `files.mkdir("build")`,
  },
  "POST /fs/move": {
    body: { from: "hello.txt", to: "moved.txt" },
    typescript: `await files.move("hello.txt", "moved.txt");`,
    python: `files.move("hello.txt", "moved.txt")`,
  },
  "POST /fs/copy": {
    body: { from: "hello.txt", to: "copy.txt" },
    typescript: `await files.copy("hello.txt", "copy.txt");`,
    python: `files.copy("hello.txt", "copy.txt")`,
  },
  "GET /fs/file": {
    query: { path: "hello.txt" },
    typescript: `for await (const bytes of await files.download("hello.txt")) console.log(bytes.length);`,
    python: `for piece in files.download("hello.txt"):\n    print(len(piece))`,
  },
  "HEAD /fs/file": { query: { path: "hello.txt" } },
  "PUT /fs/file": {
    query: { path: "data.bin" },
    file: "data.bin",
    typescript: `import { openAsBlob } from "node:fs";\nawait files.upload("data.bin", await openAsBlob("data.bin"));`,
    python: `from pathlib import Path\nfiles.write("data.bin", Path("data.bin").read_bytes())`,
  },
  "GET /fs/tar": {
    query: { path: "/workspace", exclude: "node_modules" },
    typescript: `const archive = await files.tar("/workspace", { exclude: ["node_modules"] });\nfor await (const bytes of archive) console.log(bytes.length);`,
    python: `for piece in files.tar("/workspace", exclude=["node_modules"]):\n    print(len(piece))`,
  },
  "PUT /fs/tar": {
    query: { path: "/workspace" },
    file: "project.tar",
    typescript: `import { openAsBlob } from "node:fs";\nawait files.untar("/workspace", await openAsBlob("project.tar"));`,
    python: `from pathlib import Path\nfiles.untar(Path("project.tar").read_bytes(), "/workspace")`,
  },
  "GET /fs/watch": {
    query: { path: "/workspace", recursive: "true" },
    typescript: `for await (const { kind, path } of files.watch("/workspace", { recursive: true }))\n  console.log(kind, path);`,
    python: `for change in files.watch("/workspace", recursive=True):\n    print(change.kind, change.path)`,
  },
  "POST /fs/upload": {
    query: { path: "/workspace" },
    file: "data.bin",
    typescript: `await files.uploadAll("/workspace", [new File(["1,2,3\\n"], "numbers.csv")]);`,
  },
};

/** The operations that have a row. */
export const SAMPLED_OPERATIONS: readonly string[] = [
  ...Object.keys(ROWS),
  ...Object.keys(FILE_ROWS).flatMap((name) => [
    name.replace(" ", " /v1/sessions/{id}"),
    name.replace(" ", " /v1/workspaces/{id}"),
  ]),
];

/** By a name such as `POST /v1/sessions`. */
export function sampleRow(operation: string): SampleRow {
  const inFiles = operation.replace(/ \/v1\/(?:sessions|workspaces)\/\{id\}(?=\/fs)/, " ");
  return ROWS[operation] ?? FILE_ROWS[inFiles] ?? {};
}
