/** Identifies the process that owns a temporary directory, so a later process can check whether it is alive. */
import { readFile } from "node:fs/promises";
import { systemCode } from "../system-errors.ts";

/** `<pid>-<start time>`: the pid alone may have been reused. */
export async function ownerTag(pid: number): Promise<string | undefined> {
  let stat: string;
  try {
    stat = await readFile(`/proc/${pid}/stat`, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ESRCH") return undefined;
    throw error;
  }
  // The second field, the program's name, may contain spaces and brackets; the 22nd is the start
  // time.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  // A zombie has already ended.
  return fields[0] === "Z" || fields[0] === "X" ? undefined : `${pid}-${fields[19]}`;
}

/** Whether the process identified by a tag is still running. */
export async function isOwnerAlive(tag: string): Promise<boolean> {
  const pid = Number(tag.split("-")[0]);
  return Number.isSafeInteger(pid) && pid > 0 && (await ownerTag(pid)) === tag;
}
