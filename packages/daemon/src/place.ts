/** Names places where sandboxes are, so that daemons which share a store know which of them they reach. */
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";

/** Of a Docker engine: by its address, which for a socket says something on one machine only. */
export async function placeOfEngine(host: string): Promise<string> {
  if (!host.startsWith("unix:")) return `docker:${host}`;
  const machine = await readFile("/etc/machine-id", "utf8").catch(() => "");
  return `docker:${host}@${hostname()}/${machine.trim()}`;
}

/** Of sandboxes on this machine: they are a data directory's. */
export function placeOfDirectory(instance: string): string {
  return `oci:${instance}`;
}
