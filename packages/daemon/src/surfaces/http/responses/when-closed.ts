/** Notices that a response has ended or its client has gone. */
import type { ServerResponse } from "node:http";

/** Runs the action at once if the response has closed already, since its event does not come again. */
export function whenClosed(response: ServerResponse, action: () => void): void {
  if (response.closed) action();
  else response.once("close", action);
}
