/** Collects a command's output for a response, within the memory that responses can take. */
import type { CollectedOutput, ExecHandle } from "../../../../sessions/services/exec-service.ts";
import type { HeldBytes } from "../../../http/request/request-memory.ts";

/** Responses with less output are not counted, and are what remains when there is no room. */
const SMALL_OUTPUT_BYTES = 65_536;

/** The command has run, so without room its result is sent with less output instead of an error. */
export async function collectWithin(
  held: HeldBytes,
  exec: ExecHandle,
  budgetBytes?: number,
): Promise<CollectedOutput> {
  const collected = await exec.collect(budgetBytes);
  const bytes = collected.output.byteLength;
  if (bytes <= SMALL_OUTPUT_BYTES || held.tryAdd(2 * bytes)) return collected;
  return await exec.collect(SMALL_OUTPUT_BYTES);
}
