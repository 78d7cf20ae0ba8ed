/** Real programs in a sandbox against real servers of the suite. */
import { afterAll, expect, it } from "vitest";
import { startPostgres } from "./postgres.ts";
import { debianRepository, gitRepository, npmRegistry, pythonIndex } from "./repositories.ts";
import { serveFiles } from "./world.ts";
import type { Served } from "./world.ts";
import type { NetworkSetup } from "./setup.ts";

export function programSuite(setup: () => NetworkSetup): void {
  const served: Served[] = [];
  afterAll(async () => {
    for (const { close } of served.splice(0)) await close();
  });

  /** Makes a server reachable for the sandbox under a name. */
  const reach = (name: string, server: Served): number => {
    served.push(server);
    setup().network.allow(name, server.port);
    return server.port;
  };

  it("git clones over HTTP", async () => {
    const port = reach("git.test", await serveFiles(await gitRepository()));
    const { stdout, stderr } = await setup().sh(
      `rm -rf cloned && git clone -q http://git.test:${String(port)}/hello.git cloned && cat cloned/hello.txt`,
    );
    expect([stdout, stderr]).toEqual(["hello from git\n", ""]);
  });

  it("pip installs from an index", async () => {
    const port = reach("pip.test", await serveFiles(await pythonIndex()));
    const { stdout, stderr } = await setup().sh(
      `/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --target pip ` +
        `--trusted-host pip.test --index-url http://pip.test:${String(port)}/simple sandkasten-hello && ` +
        `PYTHONPATH=pip /usr/bin/python3 -m sandkasten_hello`,
    );
    expect({ stdout, stderr }).toMatchObject({ stdout: "hello from pip\n" });
  });

  it("npm installs from a registry", async () => {
    let port = 0;
    const files = new Map<string, Uint8Array | string>();
    port = reach("npm.test", await serveFiles(files));
    for (const [path, content] of npmRegistry(() => `http://npm.test:${String(port)}`))
      files.set(path, content);
    const { stdout, stderr } = await setup().sh(
      `mkdir -p npm && cd npm && echo '{}' > package.json && npm install --silent --no-audit --no-fund ` +
        `--registry http://npm.test:${String(port)}/ sandkasten-hello && ` +
        `node -e 'require("sandkasten-hello")'; cd ..`,
    );
    expect({ stdout, stderr }).toMatchObject({
      stdout: expect.stringContaining("hello from npm\n"),
    });
  });

  it("Node fetches", async () => {
    const { stdout, stderr } = await setup().sh(
      `node -e 'fetch("http://web.test:PORT/fetch").then(async (r) => console.log(await r.text()))'`,
    );
    expect({ stdout, stderr }).toMatchObject({ stdout: expect.stringContaining("/fetch") });
  });

  it("apt updates from a repository and downloads a package", async () => {
    const port = reach("apt.test", await serveFiles(await debianRepository()));
    const { stdout, stderr } = await setup().sh(
      `mkdir -p apt/state/lists/partial apt/cache/archives/partial apt/etc/apt.conf.d apt/etc/preferences.d apt/etc/sources.list.d apt/log && ` +
        `touch apt/status && echo 'deb [trusted=yes] http://apt.test:${String(port)}/debian ./' > apt/etc/sources.list && ` +
        `apt="apt-get -qq -o Dir::State=$PWD/apt/state -o Dir::State::status=$PWD/apt/status ` +
        `-o Dir::Cache=$PWD/apt/cache -o Dir::Etc=$PWD/apt/etc -o Dir::Log=$PWD/apt/log -o APT::Sandbox::User=" && ` +
        `$apt update && $apt download sandkasten-hello && dpkg-deb --fsys-tarfile sandkasten-hello*.deb | tar -xO ./hello.txt`,
    );
    expect({ stdout, stderr }).toMatchObject({
      stdout: expect.stringContaining("hello from apt\n"),
    });
  });

  it("psql queries a Postgres without a proxy", async (context) => {
    if (setup().mode === "proxy") context.skip("psql knows no proxy");
    const port = reach("db.test", await startPostgres());
    const { stdout, stderr } = await setup().sh(
      `/usr/lib/postgresql/*/bin/psql -h db.test -p ${String(port)} -U tester -d postgres -Atc 'select 6 * 7'`,
    );
    expect({ stdout, stderr }).toMatchObject({ stdout: "42\n" });
  });

  it("a raw socket in Python communicates and half-closes", async (context) => {
    if (setup().mode === "proxy") context.skip("a raw socket knows no proxy");
    const { port } = setup().echo;
    const { stdout, stderr } = await setup().sh(
      `/usr/bin/python3 - <<'END'
import socket
s = socket.create_connection(("echo.test", ${String(port)}), timeout=20)
s.sendall(b"raw bytes")
s.shutdown(socket.SHUT_WR)
parts = []
while part := s.recv(100): parts.append(part)
print(b"".join(parts).decode())
END`,
    );
    expect({ stdout, stderr }).toMatchObject({ stdout: "raw bytes\n" });
  });
}
