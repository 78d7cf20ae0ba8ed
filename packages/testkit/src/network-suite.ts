/** The conformance suite of sandbox networks: every backend passes it, transparently or through the proxy. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Channel } from "./ports.ts";
import { attackSuite } from "./suites/network/attacks.ts";
import { loadSuite } from "./suites/network/load.ts";
import { programSuite } from "./suites/network/programs.ts";
import type { NetworkSetup } from "./suites/network/setup.ts";
import { trustSuite } from "./suites/network/trust.ts";
import { TestNetwork } from "./suites/network/test-network.ts";
import { sendLarge, serveHttp, serveTcp } from "./suites/network/world.ts";
import { run } from "./suites/run-command.ts";

/** A sandbox whose network reaches the test's world. */
export interface NetworkFixture {
  readonly channel: Channel;
  /** The mode that the sandbox reports. */
  readonly mode: "transparent" | "proxy";
  readonly close: () => Promise<void>;
}

const PARTS = {
  "real programs": programSuite,
  attacks: attackSuite,
  load: loadSuite,
  trust: trustSuite,
} as const satisfies Record<string, (setup: () => NetworkSetup) => void>;

export interface NetworkSuiteOptions {
  /** The mode that the backend provides. */
  readonly mode: NetworkFixture["mode"];
  /** All of them when absent. */
  readonly parts?: readonly (keyof typeof PARTS)[];
  /** Why the sandbox cannot be created here; the suite is then skipped with that reason in its name. */
  readonly unavailable?: string | undefined;
  /** The size of the large download. */
  readonly mebibytes?: number;
}

export function networkSuite(
  name: string,
  makeFixture: (network: TestNetwork) => Promise<NetworkFixture>,
  { mode, parts, unavailable, mebibytes = 64 }: NetworkSuiteOptions,
): void {
  const note = unavailable === undefined ? "" : ` (skipped: ${unavailable})`;
  const wanted = Object.entries(PARTS).filter(([part]) => parts?.some((p) => p === part) ?? true);
  describe.skipIf(unavailable !== undefined)(
    `the network of ${name}, ${mode}${note}`,
    { timeout: 120_000 },
    () => {
      let made: (NetworkSetup & { readonly close: () => Promise<void> }) | undefined;
      const setup = (): NetworkSetup => {
        if (made === undefined) throw new Error("the sandbox of this suite could not be created");
        return made;
      };
      beforeAll(async () => {
        made = await makeSetup(makeFixture, mebibytes);
      });
      afterAll(() => made?.close());

      it("reports its mode", () => {
        expect(setup().mode).toBe(mode);
      });

      basicSuite(setup);
      describe.each(wanted)("%s", (_, part) => {
        part(setup);
      });
    },
  );
}

function basicSuite(setup: () => NetworkSetup): void {
  it("reaches an allowed host through the proxy: plain, tunnelled and by SOCKS", async () => {
    const { stdout } = await setup().sh(
      "curl -sS http://web.test:PORT/a; curl -sSp http://web.test:PORT/b; " +
        "curl -sS --socks5-hostname 127.0.0.1:3128 http://web.test:PORT/c",
    );
    const host = `GET web.test:${String(setup().web.port)}`;
    expect(stdout).toBe(`${host}/a\n${host}/b\n${host}/c\n`);
  });

  it("lets a program that knows no proxy reach an allowed host, or nothing", async () => {
    const { stdout } = await setup().sh(
      `(exec 3<>/dev/tcp/web.test/PORT && printf 'GET /plain HTTP/1.0\\r\\n\\r\\n' >&3 && tail -n 1 <&3) 2>/dev/null || echo nowhere`,
    );
    expect(stdout).toBe(setup().mode === "transparent" ? "GET /plain\n" : "nowhere\n");
  });

  it("shows only the sandbox's own servers", async () => {
    await setup().sh("(exec 3<>/dev/tcp/web.test/PORT) || true");
    expect(await setup().channel.listPorts()).toEqual([]);
  });

  it("reaches no other host and no address", async () => {
    const { stdout } = await setup().sh(
      "for host in other.test 192.0.2.1 198.51.100.7 198.18.200.1; do " +
        "(exec 3<>/dev/tcp/$host/80) 2>/dev/null && echo reached $host; done; echo done",
    );
    expect(stdout).toBe("done\n");
    expect(setup().network.asked).not.toContain("other.test");
  });
}

async function makeSetup(
  makeFixture: (network: TestNetwork) => Promise<NetworkFixture>,
  mebibytes: number,
): Promise<NetworkSetup & { readonly close: () => Promise<void> }> {
  const network = await TestNetwork.make();
  const requests: string[] = [];
  const web = await serveHttp(async (request, response) => {
    const { method = "", url = "", headers } = request;
    requests.push(`${method} ${url}`);
    const large = /^\/large\/(\d+)$/u.exec(url)?.[1];
    if (large !== undefined) return await sendLarge(response, Number(large));
    if (url === "/slow")
      for (const digit of "0123456789".slice(0, 9)) {
        response.write(digit);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    request.resume();
    response.end(url === "/slow" ? "9" : `${method} ${headers.host ?? ""}${url}\n`);
  });
  const echo = await serveTcp((socket) => void socket.pipe(socket));
  network.allow("web.test", web.port);
  network.allow("echo.test", echo.port);
  const { channel, mode, close } = await makeFixture(network);
  return {
    network,
    mode,
    channel,
    web,
    echo,
    requests,
    mebibytes,
    sh: (command) => run(channel, command.replaceAll("PORT", String(web.port))),
    close: async () => {
      channel.close();
      await close();
      await web.close();
      await echo.close();
    },
  };
}
