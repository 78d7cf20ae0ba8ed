#!/usr/bin/env node
/** The executable: this process as the host of the command line. */
import { enableCompileCache } from "node:module";
import { compileCacheDirectory } from "./environment.ts";

// Reading and compiling the modules takes longer than most commands; Node can remember the outcome.
const cache = compileCacheDirectory();
if (cache !== undefined) enableCompileCache(cache);

const { processHost } = await import("./host.ts");
const { runCli } = await import("./run-cli.ts");
const code = await runCli(process.argv.slice(2), processHost());
// Connections that are kept alive, or input that nobody reads any more, must not hold the end up.
process.exit(code);
