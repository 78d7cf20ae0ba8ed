/** The only place that reads this process's environment. */
import { homedir } from "node:os";
import type { LoadConfigOptions } from "./load-config.ts";

/** What `loadConfig` needs to know about the process. */
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
