/** One step from a form of the database to the next. */

export interface Migration {
  /** What the database's version is afterwards. */
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}
