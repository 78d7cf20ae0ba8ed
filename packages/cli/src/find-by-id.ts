/** Resolves an id that was shortened to an unambiguous prefix. */
import type { Exec, SandboxClient, Session } from "@sandkasten/sdk";
import type { Cli } from "./cli.ts";
import { CliFailure } from "./failure.ts";

/** A shorter prefix is too easily mistyped for commands that destroy. */
const MIN_LETTERS = 3;
/** How many matches of an ambiguous prefix are listed. */
const SHOWN = 5;
const LIVING = ["running", "paused", "creating", "destroying"] as const;

/** The one id that begins with what was given, with or without the part before the underscore. */
export function matchPrefix(
  kind: string,
  given: string,
  ids: readonly string[],
): string | undefined {
  const [, bare] = /^(?:[a-z]+_)?([0-9a-zA-Z-]*)$/.exec(given) ?? [];
  if (given === "" || bare === undefined) return undefined;
  const fits = ids.filter((id) => (given.includes("_") ? id : lettersOf(id)).startsWith(given));
  const found = [...new Set(fits)];
  if (found.length > 0 && bare.length < MIN_LETTERS)
    throw new CliFailure(`"${given}" is too short for the prefix of an id.`, {
      hint: `Give at least ${MIN_LETTERS} characters of the ${kind}'s id.`,
      code: "AMBIGUOUS_ID",
      exitCode: 2,
    });
  if (found.length < 2) return found[0];
  const more = found.length > SHOWN ? ", …" : "";
  throw new CliFailure(
    `"${given}" matches ${found.length} ids: ${found.slice(0, SHOWN).join(", ")}${more}.`,
    { hint: `Give more characters of the ${kind}'s id.`, code: "AMBIGUOUS_ID", exitCode: 2 },
  );
}

function lettersOf(id: string): string {
  return id.slice(id.indexOf("_") + 1);
}

interface Search<T> {
  readonly kind: string;
  readonly given: string;
  readonly get: (id: string) => Promise<T>;
  /** Where to look for ids, one after the other until one matches. */
  readonly known: readonly (() => Promise<readonly string[]>)[];
  /** The error code for an id that does not exist. */
  readonly notFound: string;
}

/** What an id or prefix refers to; rethrows the daemon's refusal if nothing matches. */
export async function findById<T>(search: Search<T>): Promise<T> {
  const { kind, given, get, known, notFound } = search;
  try {
    return await get(given);
  } catch (error) {
    if (!hasCode(error, notFound) && !hasCode(error, "INVALID_REQUEST")) throw error;
    for (const list of known) {
      const id = matchPrefix(kind, given, await list());
      if (id !== undefined) return await get(id);
    }
    throw error;
  }
}

/** A session by its id or a prefix. Sessions that have not ended come first. */
export async function findSession(
  cli: Cli,
  client: SandboxClient,
  given: string,
): Promise<Session> {
  const { signal } = cli.interrupts;
  const ids = async (status?: (typeof LIVING)[number]): Promise<string[]> => {
    const filter = { ...(status !== undefined && { status }), signal };
    return await Array.fromAsync(client.sessions(filter), ({ id }) => id);
  };
  return await findById({
    kind: "session",
    given,
    get: (id) => client.getSession(id, { signal }),
    known: [async () => (await Promise.all(LIVING.map(ids))).flat(), () => ids()],
    notFound: "SESSION_NOT_FOUND",
  });
}

/** A command of a session by its id or a prefix. */
export async function findExec(cli: Cli, session: Session, given: string): Promise<Exec> {
  const { signal } = cli.interrupts;
  const list = (): Promise<string[]> =>
    Array.fromAsync(session.execs({ signal }), ({ execId }) => execId);
  return await findById({
    kind: "command",
    given,
    get: async (id) => {
      const exec = session.getExec(id);
      await exec.info({ signal });
      return exec;
    },
    known: [list],
    notFound: "EXEC_NOT_FOUND",
  });
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
