/** Packages: who must allow them, and the commands that install them, in real sandboxes. */
import { SandboxClient } from "@sandkasten/sdk";
import { npmRegistry, pythonIndex, serveFiles } from "@sandkasten/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startNameServer } from "../../../tests/support/name-server.ts";
import { npmCommand, pipCommand } from "./packages.ts";
import { SandboxScope } from "./scope/sandbox-scope.ts";
import { ToolFixture } from "./testing/tool-fixture.ts";

let fixture: ToolFixture;
beforeAll(async () => {
  fixture = await ToolFixture.start();
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

const PANDAS = { runtime: "python", pip_packages: ["pandas"] };
const NETWORK = { network: { enabled: true } };

describe("packages are refused", () => {
  it("if the agent does not request a network, and the refusal says that its author must", async () => {
    const agent = fixture.agent(PANDAS, { policy: { allowNetwork: true } });
    await expect(agent.call("sandbox_run", { code: "1" })).rejects.toMatchObject({
      code: "REFUSED",
      message: expect.stringMatching(/pip_packages.*author must set `network/) as string,
    });
  });

  it("if the administrator does not allow one, and the refusal says so", async () => {
    const settings = { ...PANDAS, ...NETWORK, npm_packages: ["left-pad"] };
    for (const mode of ["compute", "code"]) {
      const agent = fixture.agent({ ...settings, mode });
      const tool = mode === "code" ? "sandbox_open" : "sandbox_run";
      const input = mode === "code" ? {} : { code: "1" };
      await expect(agent.call(tool, input)).rejects.toMatchObject({
        code: "REFUSED",
        message: expect.stringMatching(
          /pip_packages and npm_packages.*administrator must set SANDKASTEN_AGENTS_SANDBOX_ALLOW_NETWORK=true/,
        ) as string,
      });
    }
  });

  it("if both allow it but the daemon provides no network", async () => {
    const agent = fixture.agent({ ...PANDAS, ...NETWORK }, { policy: { allowNetwork: true } });
    await expect(agent.call("sandbox_run", { code: "1" })).rejects.toMatchObject({
      code: "REFUSED",
      message: expect.stringContaining("sandboxes have no network here") as string,
    });
  });
});

/** Builds a wheel that needs no index, and puts it where pip is told to look. */
const MAKE_WHEEL = `import os, zipfile
os.makedirs("/tmp/wheels", exist_ok=True)
with zipfile.ZipFile("/tmp/wheels/greeting-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("greeting.py", "TEXT = 'hello from a package'\\n")
    info = "greeting-1.0.dist-info"
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{info}/RECORD", "")`;

/** No index is reachable here: pip uses a directory instead. Everything else is real. */
const WITHOUT_INDEX = { PIP_NO_INDEX: "1", PIP_FIND_LINKS: "/tmp/wheels" };

describe("the install command", () => {
  it("uses pip for the workspace, where programs find the packages", async () => {
    await using session = await fixture.client.createSession({ image: "python" });
    await session.exec(["python3", "-c", MAKE_WHEEL]);
    const installed = await session.exec(pipCommand(["greeting==1.0"]), { env: WITHOUT_INDEX });
    expect(installed).toMatchObject({ exitCode: 0, stdout: "" });
    const program = ["python3", "-c", "import greeting; print(greeting.TEXT)"];
    const env = { PYTHONPATH: "/workspace/.packages/python" };
    expect((await session.exec(program, { env })).stdout).toBe("hello from a package\n");
    expect((await session.exec(program)).exitCode).toBe(1);
  });

  it("never treats a package as an option", async () => {
    await using session = await fixture.client.createSession({ image: "python" });
    const refused = await session.exec(pipCommand(["--version"]), { env: WITHOUT_INDEX });
    expect(refused.exitCode).not.toBe(0);
    expect(refused.stderr).toContain("--version");
    expect(npmCommand(["--global"]).slice(-2)).toEqual(["--", "--global"]);
  });

  it("uses npm next to the program", async () => {
    await using session = await fixture.client.createSession({ image: "node" });
    const json = JSON.stringify({ name: "greeting", version: "1.0.0", main: "index.js" });
    await session.write("/tmp/greeting/package.json", json);
    await session.write("/tmp/greeting/index.js", "module.exports = 'hello from a package';\n");
    const installed = await session.exec(npmCommand(["/tmp/greeting"]), {
      env: { npm_config_offline: "true", HOME: "/tmp" },
    });
    expect(installed).toMatchObject({ exitCode: 0 });
    const program = "console.log(require('greeting'))";
    await session.write("main.js", program);
    expect((await session.exec(["node", "/work/main.js"])).stdout).toBe("hello from a package\n");
  });
});

describe("if the daemon provides a network", () => {
  /**
   * This daemon does not: the request for a network is removed on the way, as if it had been
   * granted, and pip finds the wheel without one. Everything else is as with a network.
   */
  function scopeWithNetwork(id: string): SandboxScope {
    const { url: baseUrl, apiKey } = fixture.daemon;
    const client = new SandboxClient({
      baseUrl,
      apiKey,
      fetch: async (target, init) => {
        if (typeof init?.body !== "string") return await fetch(target, init);
        const body = JSON.parse(init.body) as Record<string, unknown>;
        const { network: _, ...rest } = body;
        const env = { ...(body["env"] as object | undefined), ...WITHOUT_INDEX };
        const changed = "image" in body ? { ...rest, env } : rest;
        return await fetch(target, { ...init, body: JSON.stringify(changed) });
      },
    });
    return new SandboxScope({ client, namespace: "agent", id });
  }
  const policy = { allowNetwork: true };

  it("a package that cannot be installed fails the call with pip's message, and leaves no sandbox", async () => {
    await using agentScope = scopeWithNetwork("not-installed");
    const settings = { runtime: "python", pip_packages: ["greeting"], ...NETWORK };
    const agent = fixture.agent(settings, { policy, agentScope });
    await expect(agent.call("sandbox_run", { code: "1" })).rejects.toMatchObject({
      code: "SANDBOX_FAILED",
      message: expect.stringMatching(/pip_packages could not be installed[^]*greeting/) as string,
    });
    const code = fixture.agent({ ...settings, mode: "code" }, { policy, agentScope });
    await expect(code.call("sandbox_exec", { cmd: "true" })).rejects.toMatchObject({
      code: "SANDBOX_FAILED",
    });
    const live = await Array.fromAsync(fixture.client.sessions({ status: "running" }));
    expect(live.filter(({ key }) => key?.startsWith("agent:not-installed:"))).toEqual([]);
  });
});

describe("packages are installed", () => {
  /** Settings as in the image of an administrator who runs an index and a registry. */
  function scopeIn({ daemon }: ToolFixture, origin: string): SandboxScope {
    const variables = {
      PIP_INDEX_URL: `${origin}/simple/`,
      PIP_TRUSTED_HOST: "packages.test",
      npm_config_registry: `${origin}/`,
    };
    const client = new SandboxClient({
      baseUrl: daemon.url,
      apiKey: daemon.apiKey,
      fetch: async (target, init) => {
        const { pathname } = new URL(target instanceof Request ? target.url : target);
        const isCreate = init?.method === "POST" && pathname === "/v1/sessions";
        if (!isCreate || typeof init.body !== "string") return await fetch(target, init);
        const body = JSON.parse(init.body) as { readonly env?: object };
        const env = { ...body.env, ...variables };
        return await fetch(target, { ...init, body: JSON.stringify({ ...body, env }) });
      },
    });
    return new SandboxScope({ client, namespace: "agent", id: "installs" });
  }

  it("from an index and a registry, if the agent and the administrator allow the network", async () => {
    const files = await pythonIndex();
    const asked: string[] = [];
    await using packages = await servedFiles(files, asked);
    const origin = `http://packages.test:${packages.port}`;
    for (const [path, content] of npmRegistry(() => origin)) files.set(path, content);
    await using names = await startNameServer();
    await using allowing = await ToolFixture.start({
      settings: {
        NETWORK_ALLOW: `packages.test:${packages.port},127.0.0.1:${packages.port}`,
        NETWORK_NAME_SERVERS: names.address,
        DEFAULTS_MEM_LIMIT_MB: "512",
      },
    });
    await using agentScope = scopeIn(allowing, origin);
    const run = async (settings: object, code: string): Promise<unknown> => {
      const agent = allowing.agent(
        { ...settings, ...NETWORK },
        { policy: { allowNetwork: true }, agentScope },
      );
      const { exit_code, stdout, limits } = await agent.call("sandbox_run", { code });
      expect(limits).toMatchObject({ network: true });
      return { exit_code, stdout };
    };
    expect(
      await run(
        { runtime: "python", pip_packages: ["sandkasten-hello==1.0"] },
        "import sandkasten_hello",
      ),
    ).toEqual({ exit_code: 0, stdout: "hello from pip\n" });
    expect(
      await run(
        { runtime: "node", npm_packages: ["sandkasten-hello@1.0.0"] },
        "require('sandkasten-hello')",
      ),
    ).toEqual({ exit_code: 0, stdout: "hello from npm\n" });
    // npm also looks for a newer npm.
    expect(asked.filter((path) => path !== "/npm")).toEqual([
      "/simple/sandkasten-hello/",
      "/sandkasten_hello-1.0-py3-none-any.whl",
      "/sandkasten-hello",
      "/hello.tgz",
    ]);
  });
});

/** Serves files on loopback and records the requests. */
async function servedFiles(
  files: ReadonlyMap<string, Uint8Array | string>,
  asked: string[],
): Promise<AsyncDisposable & { readonly port: number }> {
  const { port, close } = await serveFiles(files, (path) => asked.push(path));
  return { port, [Symbol.asyncDispose]: close };
}
