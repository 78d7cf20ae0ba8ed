/** Columns are named by the mappings of rows, so that every table is alike to the compiler. */
export type Tables = Record<string, Record<string, unknown>>;
