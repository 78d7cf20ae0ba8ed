/** How large the values of a run may get. */

/** The output of one step, as JSON. */
export const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;
/** All outputs of a run together. */
export const MAX_RUN_BYTES = 64 * 1024 * 1024;
/** The input of a run, as JSON. */
export const MAX_INPUT_BYTES = 4 * 1024 * 1024;
/** An output in an event; a larger one is left to be read from the step. */
export const MAX_EVENT_OUTPUT_BYTES = 64 * 1024;
