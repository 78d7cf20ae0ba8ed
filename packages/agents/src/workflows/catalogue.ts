/** The workflows of a directory, reloaded when their files change. */
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ValueCheck } from "../prompts/value-check.ts";
import { checkAgents, compileWorkflow } from "./language/compile.ts";
import { MAX_FILE_BYTES } from "./language/located-yaml.ts";
import type { Plan } from "./language/plan.ts";
import type { Problem } from "./language/problem.ts";
import { describeProblems } from "./language/problem.ts";

/** A workflow, or why its file cannot be used. */
export interface WorkflowEntry {
  readonly id: string;
  /** Relative to the served directory. */
  readonly file: string;
  readonly source: string;
  /** Absent if the file cannot be parsed. */
  readonly plan: Plan | undefined;
  /** Checks the input of a run. */
  readonly input: ValueCheck | undefined;
  /** With file, line and column; a workflow with problems cannot be run. */
  readonly problems: readonly string[];
}

export interface WorkflowCatalogueOptions {
  /** Contains the folder `workflows`, which need not exist. */
  readonly dir: string;
  /** Whether an agent can be run. Agents can be added and removed without a change of this file. */
  readonly hasAgent: (name: string) => boolean;
}

const FOLDER = "workflows";
const SUFFIX = /\.ya?ml$/;
const MAX_WORKFLOWS = 1000;

interface ReadFile {
  readonly stamp: string;
  readonly entry: WorkflowEntry;
}

export class WorkflowCatalogue {
  readonly #folder: string;
  readonly #hasAgent: (name: string) => boolean;
  #files = new Map<string, ReadFile>();

  constructor({ dir, hasAgent }: WorkflowCatalogueOptions) {
    this.#folder = join(dir, FOLDER);
    this.#hasAgent = hasAgent;
  }

  /** All workflows, as their files are now, sorted by id. */
  async list(): Promise<readonly WorkflowEntry[]> {
    await this.#refresh();
    const entries = [...this.#files.values()].map(({ entry }) => entry);
    return entries
      .map((entry) => ({
        ...entry,
        problems: [
          ...entry.problems,
          ...sharedId(entry, entries),
          ...(entry.plan === undefined
            ? []
            : describeProblems(entry.file, checkAgents(entry.plan, this.#hasAgent))),
        ],
      }))
      .toSorted((a, b) => a.id.localeCompare(b.id));
  }

  async find(id: string): Promise<WorkflowEntry | undefined> {
    return (await this.list()).find((entry) => entry.id === id);
  }

  /** Checks every file, and reloads those that have changed. */
  async #refresh(): Promise<void> {
    const files = new Map<string, ReadFile>();
    for (const name of await this.#names()) {
      const stamp = await this.#stampOf(name);
      if (stamp === undefined) continue;
      const known = this.#files.get(name);
      files.set(name, known?.stamp === stamp ? known : { stamp, entry: await this.#read(name) });
    }
    this.#files = files;
  }

  async #names(): Promise<readonly string[]> {
    try {
      const names = await readdir(this.#folder);
      const found = names.filter((name) => SUFFIX.test(name) && !name.startsWith("."));
      return found.toSorted((a, b) => a.localeCompare(b)).slice(0, MAX_WORKFLOWS);
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
  }

  /** Undefined if the file is missing or not a regular file. */
  async #stampOf(name: string): Promise<string | undefined> {
    try {
      const status = await stat(join(this.#folder, name), { bigint: true });
      const { ino, size, mtimeNs, ctimeNs } = status;
      return status.isFile() ? `${ino} ${size} ${mtimeNs} ${ctimeNs}` : undefined;
    } catch (error) {
      if (isMissing(error)) return undefined;
      // An unreadable entry, such as a link to itself, must not hide the others.
      return String(error);
    }
  }

  async #read(name: string): Promise<WorkflowEntry> {
    const file = `${FOLDER}/${name}`;
    const fallback = name.replace(SUFFIX, "");
    const unreadable = (why: string): WorkflowEntry => ({
      id: fallback,
      file,
      source: "",
      plan: undefined,
      input: undefined,
      problems: [`${file}:1:1: ${why}`],
    });
    try {
      const path = join(this.#folder, name);
      if ((await stat(path)).size > MAX_FILE_BYTES)
        return unreadable(`the file is larger than the ${MAX_FILE_BYTES} bytes that are allowed`);
      const source = await readFile(path, "utf8");
      const { plan, problems } = compileWorkflow(source, fallback);
      const { input, fault } = await inputCheck(plan);
      const all = describeProblems(file, [...problems, ...fault]);
      return { id: plan?.id ?? fallback, file, source, plan, input, problems: all };
    } catch (error) {
      return unreadable(error instanceof Error ? error.message : String(error));
    }
  }
}

async function inputCheck(
  plan: Plan | undefined,
): Promise<{ readonly input: ValueCheck | undefined; readonly fault: readonly Problem[] }> {
  if (plan?.inputSchema === undefined) return { input: undefined, fault: [] };
  const { value, place } = plan.inputSchema;
  try {
    return { input: await ValueCheck.compile(value), fault: [] };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const message = `workflow: input_schema is not a JSON Schema: ${why}`;
    return { input: undefined, fault: [{ ...place, message }] };
  }
}

function sharedId(
  { id, file, plan }: WorkflowEntry,
  entries: readonly WorkflowEntry[],
): readonly string[] {
  if (plan === undefined) return [];
  return entries
    .filter((other) => other.id === id && other.file !== file)
    .map((other) => `${file}:1:1: the id ${id} is also that of ${other.file}`);
}

function isMissing(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    (error.code === "ENOENT" || error.code === "ENOTDIR")
  );
}
