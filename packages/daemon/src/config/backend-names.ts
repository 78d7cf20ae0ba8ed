/** The backends that there are; `auto` takes the first of them that works. */
export const BACKEND_NAMES = ["oci", "docker"] as const;

export type BackendName = (typeof BACKEND_NAMES)[number];
