/** The directories that the runtime mounts over, and their attributes if an image lacks them. */

export interface MountPoint {
  readonly path: string;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

/** The user that code runs as. */
export const CODE_USER = { name: "sandbox", uid: 1000, gid: 1000, home: "/home/sandbox" } as const;

/** An empty file that the runner is mounted over. */
export const RUNNER_MOUNT_POINT: MountPoint = {
  path: ".sandkasten/runner",
  uid: 0,
  gid: 0,
  mode: 0o755,
};

/** Parents come before their children. */
export const MOUNT_POINTS: readonly MountPoint[] = [
  { path: "dev", uid: 0, gid: 0, mode: 0o755 },
  { path: "proc", uid: 0, gid: 0, mode: 0o555 },
  { path: "sys", uid: 0, gid: 0, mode: 0o555 },
  { path: "tmp", uid: 0, gid: 0, mode: 0o1777 },
  { path: "run", uid: 0, gid: 0, mode: 0o755 },
  { path: ".sandkasten", uid: 0, gid: 0, mode: 0o755 },
  { path: "etc", uid: 0, gid: 0, mode: 0o755 },
  { path: "root", uid: 0, gid: 0, mode: 0o700 },
  { path: "home", uid: 0, gid: 0, mode: 0o755 },
  { path: "home/sandbox", uid: CODE_USER.uid, gid: CODE_USER.gid, mode: 0o755 },
  { path: "workspace", uid: CODE_USER.uid, gid: CODE_USER.gid, mode: 0o755 },
  { path: "var", uid: 0, gid: 0, mode: 0o755 },
  { path: "var/tmp", uid: 0, gid: 0, mode: 0o1777 },
];
