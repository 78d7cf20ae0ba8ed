/** Row mappings name the columns, so all tables have the same type. */
export type Tables = Record<string, Record<string, unknown>>;
