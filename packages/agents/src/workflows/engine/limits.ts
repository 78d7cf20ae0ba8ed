/** Limits on the size of a run's values, and on how much one process does at once. */

/** The output of one step, as JSON. */
export const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;
/** All outputs of a run together. */
export const MAX_RUN_BYTES = 64 * 1024 * 1024;
/** The input of a run, as JSON. */
export const MAX_INPUT_BYTES = 4 * 1024 * 1024;
/** An output in an event; a larger one has to be read from the step. */
export const MAX_EVENT_OUTPUT_BYTES = 64 * 1024;
/** How many runs one process works on at once; others wait. */
export const MAX_RUNS_AT_ONCE = 1000;
/** How many agents of all runs work at once in one process; other steps wait. */
export const MAX_AGENTS_AT_ONCE = 64;
