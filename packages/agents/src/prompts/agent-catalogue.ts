/** The agents of a directory, reloaded when their files change. */
import { watch } from "node:fs";
import type { FSWatcher } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import type { AgentDefinition } from "./agent-definition.ts";
import { MAX_PROMPT_BYTES } from "./frontmatter-yaml.ts";
import { parsePrompt, PROMPT_SUFFIX } from "./parse-prompt.ts";

/** An agent, or why its file cannot be used. */
export type CatalogueEntry =
  | { readonly name: string; readonly file: string; readonly definition: AgentDefinition }
  | { readonly name: string; readonly file: string; readonly error: string };

export interface AgentCatalogueOptions {
  /** Contains the folder `agents`, which need not exist. */
  readonly dir: string;
  readonly log: Logger;
  /** How often to check the files without a notification; some file systems send none. */
  readonly rescanMs?: number | undefined;
}

const FOLDER = "agents";
const RESCAN_MS = 2_000;
/** Editors save in several steps. */
const SETTLE_MS = 25;
const MAX_AGENTS = 1_000;

interface SeenFile {
  readonly stamp: string;
  readonly entry: CatalogueEntry;
}

export class AgentCatalogue {
  readonly #folder: string;
  readonly #log: Logger;
  readonly #rescanMs: number;
  #seen = new Map<string, SeenFile>();
  #watcher: FSWatcher | undefined;
  #rescanTimer: NodeJS.Timeout | undefined;
  #settleTimer: NodeJS.Timeout | undefined;
  #scanning: Promise<void> | undefined;

  constructor({ dir, log, rescanMs = RESCAN_MS }: AgentCatalogueOptions) {
    this.#folder = join(dir, FOLDER);
    this.#log = log;
    this.#rescanMs = rescanMs;
  }

  /** Reads all files, then watches them. */
  async open(): Promise<void> {
    await this.refresh();
    this.#rescanTimer = setInterval(() => void this.#rescan(), this.#rescanMs).unref();
    this.#watch();
  }

  close(): void {
    clearInterval(this.#rescanTimer);
    clearTimeout(this.#settleTimer);
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  /** All files, by name. */
  entries(): readonly CatalogueEntry[] {
    return [...this.#seen.values()]
      .map(({ entry }) => entry)
      .toSorted((one, other) => one.name.localeCompare(other.name));
  }

  /**
   * Finds by file name without suffix, or else by `metadata.name`, which several agents may share.
   */
  find(name: string): CatalogueEntry | undefined {
    const entries = this.entries();
    return (
      entries.find((entry) => entry.name === name) ??
      entries.find((entry) => "definition" in entry && entry.definition.title === name)
    );
  }

  /** Reloads the files that have changed. A broken file keeps its error; the others still work. */
  async refresh(): Promise<void> {
    // One scan at a time; a caller that arrives during one needs a scan that starts after its call.
    while (this.#scanning !== undefined) await this.#scanning;
    this.#scanning = this.#scan();
    try {
      await this.#scanning;
    } finally {
      this.#scanning = undefined;
    }
  }

  async #scan(): Promise<void> {
    const seen = new Map<string, SeenFile>();
    for (const file of await this.#files()) {
      const known = this.#seen.get(file);
      const stamp = await this.#stampOf(file);
      if (stamp === undefined) continue;
      const current = known?.stamp === stamp ? known : { stamp, entry: await this.#read(file) };
      seen.set(file, current);
    }
    this.#seen = seen;
  }

  async #files(): Promise<string[]> {
    try {
      const names = await readdir(this.#folder);
      const files = names.filter((name) => name.endsWith(PROMPT_SUFFIX) && !name.startsWith("."));
      return files.toSorted().slice(0, MAX_AGENTS);
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
  }

  /**
   * Undefined for a missing file or one that is not regular. Replacing a file changes its inode.
   */
  async #stampOf(file: string): Promise<string | undefined> {
    try {
      const status = await stat(join(this.#folder, file), { bigint: true });
      const { ino, size, mtimeNs, ctimeNs } = status;
      return status.isFile() ? `${ino} ${size} ${mtimeNs} ${ctimeNs}` : undefined;
    } catch (error) {
      if (isMissing(error)) return undefined;
      // An unreadable entry, such as a link to itself, must not hide the others.
      return String(error);
    }
  }

  async #read(file: string): Promise<CatalogueEntry> {
    const name = file.slice(0, -PROMPT_SUFFIX.length);
    const shown = `${FOLDER}/${file}`;
    try {
      const path = join(this.#folder, file);
      const { size } = await stat(path);
      const source =
        size > MAX_PROMPT_BYTES ? " ".repeat(MAX_PROMPT_BYTES + 1) : await readFile(path, "utf8");
      return { name, file: shown, definition: await parsePrompt(shown, source) };
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#log.warn({ agent: name, problem: message }, "an agent's file cannot be used");
      return { name, file: shown, error: message };
    }
  }

  #watch(): void {
    try {
      this.#watcher = watch(this.#folder, { persistent: false }, () => {
        clearTimeout(this.#settleTimer);
        this.#settleTimer = setTimeout(() => void this.#rescan(), SETTLE_MS).unref();
      });
      this.#watcher.on("error", () => this.#unwatch());
    } catch (error) {
      // The folder may be created later; the periodic scan then finds it.
      if (!isMissing(error)) this.#log.debug({ err: error }, "the agents' folder is not watched");
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  async #rescan(): Promise<void> {
    try {
      await this.refresh();
      if (this.#watcher === undefined) this.#watch();
    } catch (error) {
      this.#log.error({ err: error }, "the agents' folder cannot be read");
    }
  }
}

function isMissing(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    (error.code === "ENOENT" || error.code === "ENOTDIR")
  );
}
