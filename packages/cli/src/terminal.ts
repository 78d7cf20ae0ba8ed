/** Connects the user's terminal to a sandbox's, and restores it. */
import { spawnSync } from "node:child_process";
import type { HostInput } from "./host.ts";
import type { Sink } from "./output/sink.ts";

/**
 * Resets what a program in the sandbox may have left enabled: colours, a hidden cursor, mouse reports,
 * bracketed paste, the application keypad.
 *
 * SECURITY: a terminal left in such a state would type input chosen by the sandbox into the user's own
 * shell (threat: control characters; guarded by cli.serial.test.ts).
 */
const USUAL_STATE =
  "\u001b[0m\u001b[?25h\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1006l\u001b[?1004l\u001b[?2004l\u001b[?1l\u001b>";

export function holdTerminal(stdin: HostInput, out: Sink): Disposable {
  const raw = stdin.isTTY === true && stdin.setRawMode !== undefined;
  const restore = (): void => {
    process.off("exit", restore);
    if (raw) stdin.setRawMode?.(false);
    if (out.isTerminal) out.stream.write(USUAL_STATE);
  };
  if (raw) {
    stdin.setRawMode?.(true);
    passOutputUnchanged();
  }
  // Also if the process ends without unwinding, as at a second signal.
  process.on("exit", restore);
  return { [Symbol.dispose]: restore };
}

/**
 * Node's raw mode still converts every LF to CR LF, which the sandbox's terminal has already done,
 * or was told not to do. Without `stty` lines look right, and only full-screen programs may not.
 */
function passOutputUnchanged(): void {
  spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"] });
}
