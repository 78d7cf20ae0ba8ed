/** Our paths in a sandbox, independent of its image. */

/** A file that image preparation creates: gVisor only mounts over paths that exist in the image. */
export const RUNNER_PATH = "/.sandkasten/runner";
export const WORKSPACE_PATH = "/workspace";
export const DEVICES_PATH = "/dev";
export const HOME_PATH = "/home/sandbox";
export const VAR_TMP_PATH = "/var/tmp";

/** The uid and gid of code in a restricted sandbox. */
export const CODE_USER = "1000:1000";
