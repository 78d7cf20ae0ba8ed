/** Where a sandbox has what is ours, whatever image it is made of. */

/** A file that image preparation makes where there is one: gVisor mounts on nothing that is not in the image. */
export const RUNNER_PATH = "/.sandkasten/runner";
export const WORKSPACE_PATH = "/workspace";
export const DEVICES_PATH = "/dev";
export const HOME_PATH = "/home/sandbox";
export const VAR_TMP_PATH = "/var/tmp";

/** The uid and gid of code in a restricted sandbox. */
export const CODE_USER = "1000:1000";
