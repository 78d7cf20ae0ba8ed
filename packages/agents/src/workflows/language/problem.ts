/** What is wrong with a workflow file, and where. */

/** A position in a file; both numbers start at 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

export interface Problem extends Place {
  readonly message: string;
}

/** `file:line:column: message`, in the order of the file. */
export function describeProblems(file: string, problems: readonly Problem[]): string[] {
  return problems
    .toSorted((a, b) => a.line - b.line || a.column - b.column)
    .map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`);
}

/** Collects problems, so that a reader can continue after the first one. */
export class Problems {
  readonly found: Problem[] = [];

  add({ line, column }: Place, message: string): void {
    this.found.push({ line, column, message });
  }
}
