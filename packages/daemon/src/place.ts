/**
 * Names the places where sandboxes are, so daemons that share a store know which they can reach.
 */
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";

/** For a Docker engine: its address. A socket address is only meaningful on one machine. */
export async function placeOfEngine(host: string): Promise<string> {
  if (!host.startsWith("unix:")) return `docker:${host}`;
  const machine = await readFile("/etc/machine-id", "utf8").catch(() => "");
  return `docker:${host}@${hostname()}/${machine.trim()}`;
}

/** For sandboxes on this machine: they belong to a data directory. */
export function placeOfDirectory(instance: string): string {
  return `oci:${instance}`;
}
