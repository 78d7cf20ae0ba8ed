/** Allowed registries, and addresses that a pull can connect to. */
import type { LookupAddress } from "node:dns";
import { describe, expect, test } from "vitest";
import { addressKind } from "../network/address-kind.ts";
import { parseReference } from "./reference.ts";
import { DEFAULT_REGISTRIES, RegistryPolicy } from "./registry-policy.ts";

test.each([
  ["8.8.8.8", "public"],
  ["140.82.112.34", "public"],
  ["172.15.0.1", "public"],
  ["172.32.0.1", "public"],
  ["100.128.0.1", "public"],
  ["2606:4700::6810:84e5", "public"],
  ["10.0.0.1", "private"],
  ["172.16.0.1", "private"],
  ["172.31.255.255", "private"],
  ["192.168.1.1", "private"],
  ["100.64.0.1", "private"],
  ["100.100.100.200", "private"],
  ["fc00::1", "private"],
  ["fd00:ec2::254", "private"],
  ["0.0.0.0", "local"],
  ["127.0.0.1", "local"],
  ["127.255.0.1", "local"],
  ["169.254.169.254", "local"],
  ["168.63.129.16", "local"],
  ["198.18.0.1", "local"],
  ["224.0.0.1", "local"],
  ["255.255.255.255", "local"],
  ["::", "local"],
  ["::1", "local"],
  ["fe80::1", "local"],
  ["ff02::1", "local"],
  ["::ffff:127.0.0.1", "local"],
  ["::ffff:10.0.0.1", "local"],
  ["::ffff:8.8.8.8", "local"],
  ["::127.0.0.1", "local"],
  ["64:ff9b::7f00:1", "local"],
  ["2002:7f00:1::", "local"],
  ["2001:0:7f00:1::", "local"],
  ["not an address", "local"],
])("%s is %s", (address, kind) => {
  expect(addressKind(address)).toBe(kind);
});

describe("registries", () => {
  const refused = (name: string): unknown =>
    expect.objectContaining({
      code: "INVALID_IMAGE",
      message: expect.stringContaining(`the registry ${name} is not allowed here`),
    });

  test("are allowed by name and port", () => {
    const policy = new RegistryPolicy({
      registries: [...DEFAULT_REGISTRIES, "Registry.Example.com:5000"],
      insecureRegistries: ["127.0.0.1:5001"],
    });
    for (const name of [
      "alpine",
      "docker.io/team/app",
      "index.docker.io/team/app",
      "ghcr.io/team/app:1",
      "registry.example.com:5000/app",
      "127.0.0.1:5001/app",
    ])
      expect(() => policy.requireAllowed(parseReference(name))).not.toThrow();
    for (const [name, registry] of [
      ["evil.example/app", "evil.example"],
      ["ghcr.io:8443/app", "ghcr.io:8443"],
      ["x.ghcr.io/app", "x.ghcr.io"],
      ["ghcr.io.evil.example/app", "ghcr.io.evil.example"],
      ["registry.example.com/app", "registry.example.com"],
      ["127.0.0.1/app", "127.0.0.1"],
      ["127.1:5001/app", "127.1:5001"],
      ["localhost:5001/app", "localhost:5001"],
    ] as const)
      expect(() => policy.requireAllowed(parseReference(name))).toThrow(refused(registry));
  });

  test("are all allowed by *, and none by an empty list", () => {
    const all = new RegistryPolicy({ registries: ["*"], insecureRegistries: [] });
    all.requireAllowed(parseReference("anything.example/app"));
    const none = new RegistryPolicy({ registries: [], insecureRegistries: [] });
    expect(() => none.requireAllowed(parseReference("alpine"))).toThrow(refused("docker.io"));
  });
});

describe("addresses that a pull can connect to", () => {
  const names: Readonly<Record<string, readonly string[]>> = {
    "public.example": ["93.184.216.34"],
    "registry.internal": ["10.1.2.3"],
    "mixed.example": ["93.184.216.34", "10.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "here.example": ["127.0.0.1"],
    "mapped.example": ["::ffff:10.0.0.1"],
    localhost: ["127.0.0.1"],
  };
  const resolve = async (hostname: string): Promise<readonly LookupAddress[]> => {
    const found = names[hostname];
    if (found === undefined) throw new Error("not found");
    return await Promise.resolve(
      found.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
    );
  };
  const policy = new RegistryPolicy({
    registries: ["*", "registry.internal", "10.9.9.9:5000", "here.example", "metadata.example"],
    insecureRegistries: ["127.0.0.1:5000", "localhost:5000"],
    resolve,
  });

  test.each([
    ["https://public.example/v2/", "public.example"],
    ["https://public.example:8443/v2/", "public.example"],
    ["https://93.184.216.34/v2/", "public.example"],
    ["https://registry.internal/v2/", "registry.internal"],
    ["https://registry.internal:443/v2/", "registry.internal"],
    ["https://10.9.9.9:5000/v2/", "10.9.9.9:5000"],
    ["http://127.0.0.1:5000/v2/", "127.0.0.1:5000"],
    ["http://localhost:5000/v2/", "localhost:5000"],
    // A listed registry can redirect clients to another listed one.
    ["https://registry.internal/token", "10.9.9.9:5000"],
  ])("%s for %s", async (url, registry) => {
    expect(await policy.addressesFor(new URL(url), registry)).not.toEqual([]);
  });

  test.each([
    ["http://public.example/v2/", "public.example"],
    ["ftp://public.example/v2/", "public.example"],
    ["file:///etc/passwd", "public.example"],
    ["https://user:password@public.example/", "public.example"],
    ["https://mixed.example/", "public.example"],
    ["https://metadata.example/", "metadata.example"],
    ["https://here.example/", "here.example"],
    ["https://mapped.example/", "public.example"],
    ["https://unknown.example/", "public.example"],
    ["https://registry.internal/", "public.example"],
    ["https://registry.internal:8443/", "registry.internal"],
    ["https://10.9.9.9:5000/", "public.example"],
    ["https://10.0.0.1/", "public.example"],
    ["https://169.254.169.254/latest/meta-data/", "public.example"],
    ["http://169.254.169.254/latest/meta-data/", "127.0.0.1:5000"],
    ["http://127.0.0.1:5001/", "127.0.0.1:5000"],
    ["https://127.0.0.1/", "registry.internal"],
    ["https://2130706433/", "public.example"],
    ["https://0x7f.1/", "public.example"],
    ["https://0177.0.0.1/", "public.example"],
    ["https://[::1]/", "public.example"],
    ["https://[::ffff:127.0.0.1]/", "public.example"],
    ["https://[64:ff9b::a9fe:a9fe]/", "public.example"],
    ["https://localhost/", "localhost:5000"],
    ["https://LOCALHOST./", "public.example"],
  ])("not %s for %s", async (url, registry) => {
    await expect(policy.addressesFor(new URL(url), registry)).rejects.toMatchObject({
      fault: "unreachable",
    });
  });
});
