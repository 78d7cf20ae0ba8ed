/** A program that appends to a journal until it is killed, and reports its position after each append. */
import { FileExecJournal } from "../file-exec-journal.ts";
import { MIB, patternAt } from "./journal-fixture.ts";

const [, , directory = "", chunkBytes = ""] = process.argv;

const journal = await FileExecJournal.open({
  directory,
  maxBytesPerExec: MIB,
  maxBytesPerSession: 64 * MIB,
});
const writer = await journal.write("session", "command");
for (;;) {
  const bytes = patternAt(writer.endOffset, Number(chunkBytes));
  await writer.append("stdout", bytes, writer.endOffset);
  process.stdout.write(`${writer.endOffset}\n`);
}
