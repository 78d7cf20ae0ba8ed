/** The only table of image shortcuts. */

const SHORTCUTS: ReadonlyMap<string, string> = new Map([
  ["base", "ubuntu:22.04"],
  ["linux", "ubuntu:22.04"],
  ["bash", "ubuntu:22.04"],
  ["shell", "ubuntu:22.04"],
  ["sandbox-runtime:base", "ubuntu:22.04"],
  ["python", "python:3.11-slim"],
  ["sandbox-runtime:python", "python:3.11-slim"],
  ["node", "node:20-slim"],
  ["sandbox-runtime:node", "node:20-slim"],
]);

/** The reference that a shortcut stands for, or undefined if the name is not a shortcut. */
export function shortcutTarget(name: string): string | undefined {
  return SHORTCUTS.get(name);
}
