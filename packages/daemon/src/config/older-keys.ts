/** Keys of the older Sandkasten that have no effect here, each with the reason. */

/** By the name in the file; `security` was a group. */
const OLDER_KEYS: ReadonlyMap<string, string> = new Map([
  ["dashboard_enabled", "the dashboard is always served at /"],
  ["playground_config_path", "there is no playground"],
  ["security", "the seccomp filter is always on"],
  ["workspace.enabled", "persistent workspaces are always available"],
  [
    "workspace.persist_by_default",
    "a session has a persistent workspace if its request names one with workspace_id",
  ],
]);

const OLDER_VARIABLES: ReadonlyMap<string, string> = new Map([
  ["SANDKASTEN_DASHBOARD_ENABLED", "dashboard_enabled"],
  ["SANDKASTEN_PLAYGROUND_CONFIG_PATH", "playground_config_path"],
  ["SANDKASTEN_SECCOMP", "security"],
]);

/** Why a key or variable of the older program has no effect; undefined if it had no such key. */
export function olderNameWarning(name: string): string | undefined {
  const reason = OLDER_KEYS.get(OLDER_VARIABLES.get(name) ?? name);
  return reason && `${name} of the older Sandkasten has no effect: ${reason}; remove it`;
}

/** Converts the older `pool: { enabled, images: { python: 3 } }` to a list; undefined for any other value. */
export function olderPool(value: unknown): readonly object[] | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const { enabled, images = {}, ...others } = value as Readonly<Record<string, unknown>>;
  const isOlder = Object.keys(others).length === 0 && typeof images === "object" && images !== null;
  if (!isOlder || (enabled !== undefined && typeof enabled !== "boolean")) return undefined;
  return enabled === true
    ? Object.entries(images).map(([image, size]) => ({ image, size: size as unknown }))
    : [];
}
