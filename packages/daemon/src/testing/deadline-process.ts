/** Says whether a line of input came before an observed deadline of one second. */
import { once } from "node:events";
import { ObservedDeadline } from "../observed-deadline.ts";

const deadline = new ObservedDeadline(1_000, () => {
  process.stdout.write("expired\n");
  process.exit(1);
});
process.stdout.write("waiting\n");
await once(process.stdin, "data");
deadline.stop();
process.stdout.write("answered\n");
process.stdin.destroy();
