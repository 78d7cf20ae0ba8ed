/** A channel into a fake sandbox: the whole port, in memory. */
import { posix } from "node:path";
import { execIdSchema, SandboxError, shellNameSchema } from "@sandkasten/protocol";
import type { DirectoryPage, FileEntry, NamedPath } from "@sandkasten/protocol";
import type {
  ByteSource,
  Channel,
  ChannelHealth,
  ExecCommand,
  ExecInfo,
  ExecOptions,
  ExecStream,
  FileChange,
  FileRead,
  ListeningPort,
  NetworkHandler,
  OpenNetwork,
  PortConnection,
  SandboxPath,
  ShellInfo,
  TarStream,
  TerminalSize,
} from "../ports.ts";
import { readTar, writeTar } from "../tar-archive.ts";
import type { FakeExec } from "./fake-exec.ts";
import { FakeExecStream } from "./fake-exec.ts";
import { FakeSandbox } from "./fake-sandbox.ts";
import { followChanges } from "./follow-changes.ts";
import { exactPath, namedPath, pathOfBytes } from "./memory-path.ts";

export class FakeChannel implements Channel {
  readonly #sandbox: FakeSandbox;
  readonly #closed = new AbortController();

  constructor(sandbox: FakeSandbox = new FakeSandbox()) {
    this.#sandbox = sandbox;
  }

  async exec(
    command: ExecCommand,
    options: ExecOptions,
    signal?: AbortSignal,
  ): Promise<ExecStream> {
    await this.#enter(signal);
    if (!execIdSchema.safeParse(options.execId).success)
      throw new SandboxError("INVALID_REQUEST", `${options.execId} is no id of a command`);
    if (command.kind === "shell" && !shellNameSchema.optional().safeParse(command.shell).success)
      throw new SandboxError("INVALID_REQUEST", `${String(command.shell)} is no name of a shell`);
    const exec = this.#sandbox.start(command, options);
    await this.#begun(exec, signal);
    return this.#stream(exec, 0, "done", options.stdin === true, signal);
  }

  async attach(
    execId: string,
    options: Parameters<Channel["attach"]>[1] = {},
    signal?: AbortSignal,
  ): Promise<ExecStream> {
    await this.#enter(signal);
    const exec = this.#find(execId);
    await this.#begun(exec, signal);
    return this.#stream(
      exec,
      options.offset ?? 0,
      options.until ?? "done",
      options.stdin === true,
      signal,
    );
  }

  async signal(execId: string, signalNumber: number): Promise<number> {
    await this.#enter();
    const exec = this.#find(execId);
    if (exec.state === "done") return 0;
    exec.kill("killed", signalNumber);
    return 1;
  }

  async cancel(execId: string): Promise<boolean> {
    await this.#enter();
    const exec = this.#find(execId);
    if (exec.state === "done") return false;
    this.#sandbox.cancel(exec);
    return true;
  }

  async shells(): Promise<ShellInfo[]> {
    await this.#enter();
    return this.#sandbox.shells();
  }

  async closeShell(name: string): Promise<void> {
    await this.#enter();
    this.#sandbox.closeShell(name);
  }

  async resize(execId: string, size: TerminalSize): Promise<void> {
    await this.#enter();
    const exec = this.#find(execId);
    if (exec.terminal === undefined)
      throw new SandboxError("INVALID_REQUEST", `the command ${execId} has no terminal`);
    exec.terminal = size;
  }

  async listExecs(): Promise<ExecInfo[]> {
    await this.#enter();
    return [...this.#sandbox.execs.values()].map((exec) => exec.info);
  }

  async forgetExec(execId: string): Promise<void> {
    await this.#enter();
    if (this.#find(execId).state !== "done")
      throw new SandboxError("CONFLICT", `the command ${execId} has not ended`);
    this.#sandbox.execs.delete(execId);
  }

  async stat(path: SandboxPath, options: Parameters<Channel["stat"]>[1] = {}): Promise<FileEntry> {
    await this.#enter();
    const { files } = this.#sandbox;
    const named = this.#path(path);
    return files.entry(options.follow === true ? files.follow(named) : named, named);
  }

  async realpath(path: SandboxPath): Promise<NamedPath> {
    await this.#enter();
    return namedPath(this.#sandbox.files.follow(this.#path(path)));
  }

  async readFile(
    ...[path, { offset: start = 0, length, realPath } = {}]: Parameters<Channel["readFile"]>
  ): Promise<FileRead> {
    await this.#enter();
    const place = this.#path(path);
    const { node, bytes } = this.#sandbox.files.bytes(place);
    const part = bytes.subarray(start, length === undefined ? undefined : start + length);
    return {
      size: bytes.byteLength,
      mode: node.mode,
      mtimeMs: node.mtimeMs,
      version: String(node.version),
      ...(realPath === true && { realPath: namedPath(this.#sandbox.files.follow(place)) }),
      body: streamOf(part),
    };
  }

  async writeFile(
    ...[path, content, options = {}]: Parameters<Channel["writeFile"]>
  ): ReturnType<Channel["writeFile"]> {
    await this.#enter();
    const target = this.#path(path);
    const bytes = await bytesOf(content);
    await this.#enter();
    const { overwrite = true, parents = true, mode, ifVersion } = options;
    const { version } = this.#sandbox.files.put(
      target,
      { bytes, ...(mode !== undefined && { mode }) },
      { overwrite, parents, ifVersion },
    );
    return { ...namedPath(target), size: bytes.byteLength, version: String(version) };
  }

  async appendFile(
    ...[path, content, options = {}]: Parameters<Channel["appendFile"]>
  ): ReturnType<Channel["appendFile"]> {
    await this.#enter();
    const { files } = this.#sandbox;
    const added = await bytesOf(content);
    const target = this.#path(path);
    const before = files.find(target) === undefined ? Buffer.alloc(0) : files.bytes(target).bytes;
    const bytes = Buffer.concat([before, added]);
    const { parents = true, mode, ifVersion } = options;
    const { version } = files.put(
      target,
      { bytes, ...(mode !== undefined && { mode }) },
      { overwrite: true, parents, ifVersion },
    );
    return { ...namedPath(target), size: bytes.byteLength, version: String(version) };
  }

  async listDirectory(
    path: SandboxPath,
    options: Parameters<Channel["listDirectory"]>[1] = {},
  ): Promise<DirectoryPage> {
    await this.#enter();
    const all = this.#sandbox.files.children(this.#path(path), options.recursive === true);
    const start = options.cursor === undefined ? 0 : Number(options.cursor);
    const end = start + (options.limit ?? 1000);
    return { entries: all.slice(start, end), ...(end < all.length && { nextCursor: String(end) }) };
  }

  async makeDirectory(
    path: SandboxPath,
    options: Parameters<Channel["makeDirectory"]>[1] = {},
  ): Promise<NamedPath> {
    await this.#enter();
    this.#sandbox.files.makeDirectory(this.#path(path), {
      ...options,
      parents: options.parents === true,
    });
    return namedPath(this.#path(path));
  }

  async move(
    from: SandboxPath,
    to: SandboxPath,
    options: Parameters<Channel["move"]>[2] = {},
  ): Promise<NamedPath> {
    await this.#enter();
    this.#sandbox.files.move(this.#path(from), this.#path(to), options.overwrite === true);
    return namedPath(this.#path(to));
  }

  async copy(
    ...[from, to, options = {}]: Parameters<Channel["copy"]>
  ): ReturnType<Channel["copy"]> {
    await this.#enter();
    const target = this.#path(to);
    const copied = this.#sandbox.files.copy(this.#path(from), target, options);
    return { ...namedPath(target), ...copied, skipped: 0 };
  }

  async remove(
    path: SandboxPath,
    options: Parameters<Channel["remove"]>[1] = {},
  ): Promise<NamedPath> {
    await this.#enter();
    this.#sandbox.files.remove(this.#path(path), options.recursive === true);
    return namedPath(this.#path(path));
  }

  async watch(
    path: SandboxPath,
    options: { readonly recursive?: boolean } = {},
    signal?: AbortSignal,
  ): Promise<AsyncIterable<FileChange>> {
    await this.#enter(signal);
    const root = this.#path(path);
    this.#sandbox.files.get(root);
    const ends = AbortSignal.any([
      this.#closed.signal,
      this.#sandbox.gone.signal,
      ...(signal === undefined ? [] : [signal]),
    ]);
    return followChanges(this.#sandbox.files, root, options.recursive === true, ends);
  }

  async extractTar(
    ...[path, archive, limits = {}]: Parameters<Channel["extractTar"]>
  ): ReturnType<Channel["extractTar"]> {
    await this.#enter();
    const root = this.#path(path);
    const entries = readTar(await bytesOf(archive));
    const bytes = entries.reduce((sum, entry) => sum + (entry.bytes?.byteLength ?? 0), 0);
    if (bytes > (limits.maxBytes ?? Infinity) || entries.length > (limits.maxEntries ?? Infinity)) {
      throw new SandboxError(
        "PAYLOAD_TOO_LARGE",
        `the archive has more than is allowed for ${root}`,
      );
    }
    for (const entry of entries) {
      const target = this.#sandbox.files.resolve(entry.path, root);
      if (entry.type === "device" || !target.startsWith(root))
        throw new SandboxError("PERMISSION_DENIED", `${entry.path} may not be unpacked`);
      if (entry.type === "dir") this.#sandbox.files.makeDirectory(target, { parents: true });
      else {
        const { type, mode = 0o644, target: link } = entry;
        const node = {
          type,
          mode: mode & 0o777,
          bytes: Buffer.from(entry.bytes ?? []),
          ...(link !== undefined && { target: link }),
        };
        this.#sandbox.files.put(target, node, { overwrite: true, parents: true });
      }
    }
    return { entries: entries.length, bytes };
  }

  async createTar(
    ...[path, { exclude = [] } = {}]: Parameters<Channel["createTar"]>
  ): Promise<TarStream> {
    await this.#enter();
    const root = this.#path(path);
    const entries = this.#sandbox.files
      .children(root, true)
      .map((entry) => ({
        path: entry.path.slice(root.length + 1),
        type: entry.type === "other" ? ("file" as const) : entry.type,
        mode: entry.mode,
        bytes: this.#sandbox.files.get(exactPath(entry)).bytes,
        ...(entry.target !== undefined && { target: entry.target }),
      }))
      .filter((entry) => !exclude.some((pattern) => isExcluded(entry.path, pattern)));
    return { unreadable: 0, unreadablePaths: [], body: streamOf(writeTar(entries)) };
  }

  async listPorts(): Promise<ListeningPort[]> {
    await this.#enter();
    const ports = [...this.#sandbox.ports].toSorted((one, other) => one - other);
    return ports.map((port) => ({ port, address: "127.0.0.1", process: "echo-server" }));
  }

  async dial(port: number, signal?: AbortSignal): Promise<PortConnection> {
    await this.#enter(signal);
    if (!this.#sandbox.ports.has(port))
      throw new SandboxError("PORT_REFUSED", `nothing listens on port ${String(port)}`);
    return new TransformStream<Uint8Array, Uint8Array>();
  }

  async openNetwork(handler: NetworkHandler): Promise<OpenNetwork> {
    await this.#enter();
    this.#sandbox.network = handler;
    const close = (): void => {
      if (this.#sandbox.network === handler) this.#sandbox.network = undefined;
    };
    this.#closed.signal.addEventListener("abort", close, { once: true });
    return { mode: "proxy", close };
  }

  async ping(): Promise<ChannelHealth> {
    await this.#enter();
    return {
      uptimeMs: Math.round(performance.now() - this.#sandbox.startedAtMs),
      rssBytes: 1,
      shell: "sh",
      tracking: "processes",
    };
  }

  close(): void {
    this.#closed.abort();
  }

  async #enter(signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true)
      throw new SandboxError("CANCELLED", "given up by its caller", { cause: signal.reason });
    if (this.#closed.signal.aborted)
      throw new SandboxError("SANDBOX_UNREACHABLE", "the channel was closed");
    await this.#sandbox.awake();
  }

  async #begun(exec: FakeExec, signal?: AbortSignal): Promise<void> {
    while (exec.state === "queued") {
      if (signal?.aborted === true)
        throw new SandboxError("CANCELLED", "given up by its caller", { cause: signal.reason });
      await Promise.race([
        exec.changed,
        new Promise((resolve) => signal?.addEventListener("abort", resolve, { once: true })),
      ]);
    }
  }

  #stream(
    exec: FakeExec,
    offset: number,
    until: "done" | "closed",
    stdin: boolean,
    signal?: AbortSignal,
  ): ExecStream {
    const ends =
      signal === undefined ? this.#closed.signal : AbortSignal.any([this.#closed.signal, signal]);
    return new FakeExecStream(exec, offset, until, stdin, ends);
  }

  #find(execId: string): FakeExec {
    const exec = this.#sandbox.execs.get(execId);
    if (exec === undefined)
      throw new SandboxError("EXEC_NOT_FOUND", `no command has the id ${execId}`);
    return exec;
  }

  #path(given: SandboxPath): string {
    const path = typeof given === "string" ? given : pathOfBytes(given);
    const isText = typeof given !== "string" || given.isWellFormed();
    if (path === "" || path.includes("\0") || !isText)
      throw new SandboxError("INVALID_REQUEST", "the path is empty, contains a NUL or is no text");
    return this.#sandbox.files.resolve(path);
  }
}

/** A pattern excludes what it matches, and everything below a directory. */
function isExcluded(path: string, pattern: string): boolean {
  const parts = path.split("/");
  const named = pattern.replace(/\/$/, "");
  return parts.some((name, index) =>
    named.includes("/")
      ? posix.matchesGlob(parts.slice(0, index + 1).join("/"), named.replace(/^\//, ""))
      : posix.matchesGlob(name, named),
  );
}

function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    type: "bytes",
    start(controller) {
      if (bytes.byteLength > 0) controller.enqueue(Uint8Array.from(bytes));
      controller.close();
    },
  });
}

async function bytesOf(source: ByteSource): Promise<Buffer> {
  return source instanceof Uint8Array
    ? Buffer.from(source)
    : Buffer.concat(await Array.fromAsync(source));
}
