/** Names the place of an engine's sandboxes, so daemons that share a store know which they reach. */
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";

/** The engine's address. A socket address is only meaningful on one machine. */
export async function placeOfEngine(host: string): Promise<string> {
  if (!host.startsWith("unix:")) return `docker:${host}`;
  const machine = await readFile("/etc/machine-id", "utf8").catch(() => "");
  return `docker:${host}@${hostname()}/${machine.trim()}`;
}
