#!/usr/bin/env node
/** The executable: this process as the host of the command line. */
import module from "node:module";
import { compileCacheDirectory } from "./environment.ts";
import { isRecentNode, LEAST_NODE } from "./least-node.ts";

// Before anything else is loaded: an older Node does not know the syntax of the other modules.
if (!isRecentNode(process.versions.node)) {
  process.stderr.write(
    `✗ Sandkasten needs Node ${LEAST_NODE} or newer; this is Node ${process.versions.node}.\n`,
  );
  process.exit(1);
}

// Reading and compiling the modules takes longer than most commands; Node can remember the outcome.
const cache = compileCacheDirectory();
if (cache !== undefined) module.enableCompileCache(cache);

const { processHost } = await import("./host.ts");
const { runCli } = await import("./run-cli.ts");
const code = await runCli(process.argv.slice(2), processHost());
// Connections that are kept alive, or input that nobody reads any more, must not hold the end up.
process.exit(code);
