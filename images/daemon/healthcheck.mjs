/** Whether the daemon in this container is ready for requests: exits with 0 when it is. */

// The image sets it, and a variable outweighs the configuration file: this is where it listens.
const port = process.env.SANDKASTEN_LISTEN.split(":").at(-1);
const { ok, status } = await fetch(`http://127.0.0.1:${port}/readyz`);
if (!ok) {
  process.stderr.write(`/readyz answered ${status}\n`);
  process.exitCode = 1;
}
