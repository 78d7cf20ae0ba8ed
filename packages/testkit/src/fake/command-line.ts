/** Parses the small shell language of the fake sandbox. */

/** One simple command: words with quotes and variables resolved, and the target of its output. */
export interface SimpleCommand {
  readonly words: readonly string[];
  readonly toStderr: boolean;
  readonly redirect?: { readonly path: string; readonly append: boolean };
}

/** Commands joined by `&&`; the list may run in the background. */
export interface AndList {
  readonly commands: readonly (() => SimpleCommand)[];
  readonly background: boolean;
}

export class SyntaxProblem extends Error {}

/** Splits a text into lists. `lookup` resolves variables when a command is reached. */
export function parseCommandLine(text: string, lookup: (name: string) => string): AndList[] {
  const lists: AndList[] = [];
  let commands: (() => SimpleCommand)[] = [];
  let pieces: string[] = [];
  const endCommand = (): void => {
    const own = pieces;
    pieces = [];
    if (own.length > 0) commands.push(() => simpleCommand(own, lookup));
  };
  const endList = (background: boolean): void => {
    endCommand();
    if (commands.length > 0) lists.push({ commands, background });
    commands = [];
  };
  for (const token of tokens(text)) {
    if (token === "&&") endCommand();
    else if (token === ";" || token === "\n") endList(false);
    else if (token === "&") endList(true);
    else pieces.push(token);
  }
  endList(false);
  return lists;
}

const TOKEN = /\s*(\n|&&|;|>&2|>>|>|&|(?:"[^"]*"|'[^']*'|[^\s"';&>])+)/y;

function tokens(text: string): string[] {
  const found: string[] = [];
  const source = text.replaceAll(/[ \t]*\n/g, " ;").trimEnd();
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < source.length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(source);
    if (match?.[1] === undefined)
      throw new SyntaxProblem(`syntax error near ${JSON.stringify(source.slice(at, at + 20))}`);
    found.push(match[1]);
  }
  return found;
}

function simpleCommand(pieces: readonly string[], lookup: (name: string) => string): SimpleCommand {
  const words: string[] = [];
  let toStderr = false;
  let redirect: SimpleCommand["redirect"];
  for (let i = 0; i < pieces.length; i++) {
    const piece = pieces[i] ?? "";
    if (piece === ">&2") toStderr = true;
    else if (piece === ">" || piece === ">>")
      redirect = { path: expand(pieces[++i] ?? "", lookup), append: piece === ">>" };
    else words.push(expand(piece, lookup));
  }
  return { words, toStderr, ...(redirect !== undefined && { redirect }) };
}

function expand(piece: string, lookup: (name: string) => string): string {
  return piece.replaceAll(
    /'([^']*)'|"([^"]*)"|([^'"]+)/g,
    (_, single?: string, double?: string, bare?: string) => {
      if (single !== undefined) return single;
      return (double ?? bare ?? "").replaceAll(/\$(\w+)/g, (__, name: string) => lookup(name));
    },
  );
}
