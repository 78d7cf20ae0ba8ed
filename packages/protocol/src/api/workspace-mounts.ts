/** Additional workspaces of a session, and the allowed mount paths. */
import { z } from "zod";

const MAX_MOUNTS = 8;

/**
 * SECURITY: against device access, changing kernel settings and linked mount points: the paths that
 * the sandbox itself uses. A workspace at, above or below one of these would hide programs, devices
 * or masks, or be on a mount that code can change while it is created. Guarded by
 * workspace-mounts.test.ts.
 */
const RESERVED = [
  "/.sandkasten",
  "/bin",
  "/dev",
  "/etc",
  "/home/sandbox",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/proc",
  "/root",
  "/run",
  "/sbin",
  "/sys",
  "/tmp",
  "/usr",
  "/var/tmp",
  "/work",
  "/workspace",
];

/** Whether two paths are equal, or one is below the other. */
function overlap(a: string, b: string): boolean {
  return a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
}

const mountPath = z
  .string()
  .max(255)
  .regex(/^(\/[^/\0]+)+$/, "must be an absolute path without // and without / at its end")
  .refine(
    (path) => !path.split("/").some((part) => part === "." || part === ".."),
    'must not have "." or ".." in it',
  )
  .refine(
    (path) => !RESERVED.some((reserved) => overlap(path, reserved)),
    `must not overlap with ${RESERVED.join(", ")}; /mnt, /srv, /opt and /data are free`,
  );

export function workspaceMountsSchema(id: z.ZodType<string, string>) {
  return z
    .array(
      // SECURITY: strict, because ignoring a misspelt `read_only` would let code write (threat:
      // linked mount points). Guarded by requests.test.ts.
      z.strictObject({
        id,
        path: mountPath,
        read_only: z.boolean().optional().meta({ description: "The mount is read-only" }),
      }),
    )
    .max(MAX_MOUNTS)
    .refine(
      (mounts) => new Set(mounts.map((mount) => mount.id)).size === mounts.length,
      "must name each workspace once",
    )
    .refine(
      (mounts) =>
        mounts.every(({ path }, index) =>
          mounts.slice(index + 1).every((other) => !overlap(path, other.path)),
        ),
      "must have paths that do not overlap",
    );
}
