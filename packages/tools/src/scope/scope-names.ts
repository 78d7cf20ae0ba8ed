/** The names of a run's sandboxes: keys of the daemon, and the names that models use. */
import type { SessionInfo } from "@sandkasten/sdk";
import { ToolError } from "../tool-error.ts";

const ID_PATTERN = /^[A-Za-z0-9_.-]{1,128}$/;
const NAME_PATTERN = /^[A-Za-z0-9_.-]{1,64}$/;
const DEFAULT_NAME = "default";

export class ScopeNames {
  /** `namespace:id`, which is unique to the run. */
  readonly label: string;
  readonly #aliases: readonly string[];

  constructor(namespace: string, id: string) {
    if (!ID_PATTERN.test(id))
      throw new TypeError(
        `the id of a scope must be 1 to 128 letters, digits, "_", "." or "-", not "${id}"`,
      );
    this.label = `${namespace}:${id}`;
    this.#aliases = [this.label, `${namespace}_${id}_sandbox`, `${id}_sandbox`];
  }

  /** The daemon's key for a session. */
  key(name: string): string {
    return `${this.label}:${name}`;
  }

  /** Whether a session belongs to this scope. */
  owns({ key = "" }: SessionInfo): boolean {
    return key.startsWith(`${this.label}:`);
  }

  /** Whether an id, a key or an alias refers to this session. */
  isNamed(session: SessionInfo, id: string): boolean {
    if (id === session.id || id === session.key) return true;
    return session.key === this.key(DEFAULT_NAME) && this.#aliases.includes(id);
  }

  /** The name that a name, a key or an alias of this scope refers to. */
  nameOf(given: string): string {
    if (this.#aliases.includes(given)) return DEFAULT_NAME;
    const prefix = this.key("");
    const name = given.startsWith(prefix) ? given.slice(prefix.length) : given;
    if (NAME_PATTERN.test(name)) return name;
    throw unknownSandbox(given);
  }
}

/** The same answer for every sandbox that the caller cannot use, whatever the reason. */
export function unknownSandbox(id: string): ToolError {
  return new ToolError(
    "SANDBOX_NOT_FOUND",
    `There is no sandbox ${JSON.stringify(id.slice(0, 256))} in this run. Leave sandbox_id out to use the run's own sandbox, or call sandbox_open.`,
  );
}
