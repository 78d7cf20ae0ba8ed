/** Names the place of sandboxes on this machine, so daemons that share a store know which they reach. */

/** They belong to a data directory. */
export function placeOfDirectory(instance: string): string {
  return `oci:${instance}`;
}
