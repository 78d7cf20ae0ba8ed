/** Whether there is a file of any kind at a path, as far as this process may see. */
import { access } from "node:fs/promises";

export async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}
