/**
 * A process that has had an answer from its launcher and ends in one of several ways: `node
 * launcher-user.ts LAUNCHER return|exit|throw|stay`. One line of JSON gives the launcher's pid.
 */
import { Launcher } from "../../packages/daemon/src/backends/oci/launcher.ts";
import { launcherServersOf } from "../support/launcher-servers.ts";

const [program = "", end] = process.argv.slice(2);
await new Launcher(program).steps();
process.stdout.write(`${JSON.stringify(await launcherServersOf(process.pid))}\n`);
if (end === "exit") process.exit(0);
if (end === "throw") throw new Error("thrown on purpose");
if (end === "stay") setInterval(() => undefined, 60_000);
