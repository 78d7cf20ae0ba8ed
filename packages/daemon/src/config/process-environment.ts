/** The one place that reads the environment of this process. */
import { homedir } from "node:os";
import type { LoadConfigOptions } from "./load-config.ts";

/** What `loadConfig` wants to know of the process. */
export function readProcessEnvironment(): Pick<
  LoadConfigOptions,
  "env" | "cwd" | "home" | "isRoot"
> {
  return {
    env: { ...process.env },
    cwd: process.cwd(),
    home: homedir(),
    isRoot: process.geteuid?.() === 0,
  };
}
