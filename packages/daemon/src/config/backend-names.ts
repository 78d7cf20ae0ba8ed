/** The available backends; `auto` uses the first that works. */
export const BACKEND_NAMES = ["oci", "docker"] as const;

export type BackendName = (typeof BACKEND_NAMES)[number];
