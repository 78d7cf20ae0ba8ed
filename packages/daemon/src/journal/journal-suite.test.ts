/** The journal in files passes the suite of journals. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { journalSuite } from "@sandkasten/testkit";
import { FileExecJournal } from "./file-exec-journal.ts";

journalSuite("files", async () => {
  const root = await mkdtemp(join(tmpdir(), "sandkasten-journal-"));
  const open = (): Promise<FileExecJournal> =>
    FileExecJournal.open({
      directory: join(root, "journal"),
      maxBytesPerExec: 2 ** 20,
      maxBytesPerSession: 2 ** 22,
    });
  return {
    journal: await open(),
    reopen: open,
    fence: 1,
    close: () => rm(root, { recursive: true, force: true }),
  };
});
