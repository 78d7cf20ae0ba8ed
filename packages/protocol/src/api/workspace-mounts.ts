/** Further workspaces of a session, and the paths at which a sandbox can have them. */
import { z } from "zod";

const MAX_MOUNTS = 8;

/**
 * SECURITY: against device access, changing kernel settings and linked mount points: what the sandbox
 * itself is made of. A workspace at, above or below one of these would hide programs, devices or masks,
 * or lie on a mount that code can change while it is made. Guarded by workspace-mounts.test.ts.
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

/** Whether one of two paths is the other, or lies below it. */
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
      // SECURITY: strict, because a misspelt `read_only` that is ignored lets code write (threat:
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
