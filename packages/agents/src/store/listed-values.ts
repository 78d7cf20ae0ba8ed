/** Keeps large values of runs out of lists: a page of them could exceed the memory. */

/** How large a value in a list may be. */
const LISTED_BYTES = 16 * 1024;

/** Columns with the value if it is short, and with its size if it is not. */
export function listedColumns(names: readonly string[]): string {
  return names
    .map(
      (name) => `
        CASE WHEN octet_length(${name}) <= ${LISTED_BYTES} THEN ${name} END AS ${name},
        CASE WHEN octet_length(${name}) > ${LISTED_BYTES} THEN octet_length(${name}) END AS ${name}_bytes`,
    )
    .join(", ");
}

/** `NAME_omitted` and `NAME_bytes` of each value that a row leaves out. */
export function omittedValues(
  row: Readonly<Record<string, unknown>>,
  names: readonly string[],
): Readonly<Record<string, true | number>> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const bytes = row[`${name}_bytes`];
      if (typeof bytes !== "number") return [];
      return [
        [`${name}_omitted`, true],
        [`${name}_bytes`, bytes],
      ];
    }),
  );
}
