#!/usr/bin/env node
/** The executable: runs the command line in this process. */
import module from "node:module";
import { compileCacheDirectory } from "./environment.ts";
import { isRecentNode, LEAST_NODE } from "./least-node.ts";

// Before anything else is loaded: an older Node cannot parse the other modules.
if (!isRecentNode(process.versions.node)) {
  process.stderr.write(
    `✗ Sandkasten needs Node ${LEAST_NODE} or newer; this is Node ${process.versions.node}.\n`,
  );
  process.exit(1);
}

// Reading and compiling the modules takes longer than most commands, so cache the result.
const cache = compileCacheDirectory();
if (cache !== undefined) module.enableCompileCache(cache);

const { processHost } = await import("./host.ts");
const { runCli } = await import("./run-cli.ts");
const code = await runCli(process.argv.slice(2), processHost());
// Keep-alive connections, or unread input, must not delay the end.
process.exit(code);
