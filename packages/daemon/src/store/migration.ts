/** One step from a version of the database schema to the next. */

export interface Migration {
  /** The database's version afterwards. */
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}
