import { execFileSync } from "node:child_process";
import { beforeAll, describe, expect, it } from "vitest";
import { SessionCa } from "../../network/session-ca.ts";
import { findTrustStore, subjectHash, trustFiles } from "./trust-store.ts";
import type { ImageNode, TrustStore } from "./trust-store.ts";

let certificate: string;
let hash: string;
beforeAll(async () => {
  certificate = (await SessionCa.make(Date.now())).certificate;
  hash = subjectHash(certificate);
});

/** An image of files and directories by their paths, and of links that lead to such a path. */
function imageOf(nodes: Readonly<Record<string, "file" | "directory" | { readonly to: string }>>) {
  return async (path: string): Promise<ImageNode> => {
    let real = path;
    for (const [link, node] of Object.entries(nodes))
      if (typeof node === "object" && (real === link || real.startsWith(`${link}/`)))
        real = node.to + real.slice(link.length);
    const found = nodes[real];
    return await Promise.resolve({
      path: real,
      kind: typeof found === "string" ? found : "missing",
    });
  };
}

const DEBIAN = {
  "/etc/ssl/certs": "directory",
  "/etc/ssl/certs/ca-certificates.crt": "file",
  "/usr/local/share/ca-certificates": "directory",
} as const;

it("the hash is the one that OpenSSL looks up", () => {
  const printed = execFileSync("openssl", ["x509", "-noout", "-hash"], { input: certificate });
  expect(hash).toBe(printed.toString().trim());
});

describe("the trust store", () => {
  it("of Debian is a bundle and a hashed directory", async () => {
    expect(await findTrustStore(imageOf(DEBIAN), certificate)).toEqual({
      bundles: ["/etc/ssl/certs/ca-certificates.crt"],
      hashed: [`/etc/ssl/certs/${hash}.0`],
      anchors: ["/usr/local/share/ca-certificates"],
    } satisfies TrustStore);
  });

  it("of Fedora is one bundle under several names", async () => {
    const bundle = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem";
    const fedora = imageOf({
      "/etc/ssl/certs": { to: "/etc/pki/tls/certs" },
      "/etc/pki/tls/certs": "directory",
      "/etc/pki/tls/certs/ca-bundle.crt": { to: bundle },
      "/etc/pki/tls/cert.pem": { to: bundle },
      "/etc/pki/ca-trust/source/anchors": "directory",
      [bundle]: "file",
    });
    expect(await findTrustStore(fedora, certificate)).toMatchObject({
      bundles: [bundle],
      hashed: [`/etc/pki/tls/certs/${hash}.0`],
    });
  });

  it("of an image without one is created where most programs look", async () => {
    const store = await findTrustStore(imageOf({}), certificate);
    expect(store.bundles).toEqual(["/etc/ssl/certs/ca-certificates.crt"]);
    expect(store.hashed).toEqual([`/etc/ssl/certs/${hash}.0`]);
    const [bundle] = await trustFiles(store, async () => undefined, certificate, "restricted");
    expect(bundle?.content.match(/BEGIN/g)?.length).toBeGreaterThan(100);
    expect(bundle?.content.endsWith(certificate)).toBe(true);
  });

  it("keeps both certificates if one with the same name exists", async () => {
    const image = imageOf({ ...DEBIAN, [`/etc/ssl/certs/${hash}.0`]: "file" });
    const { hashed } = await findTrustStore(image, certificate);
    expect(hashed).toEqual([`/etc/ssl/certs/${hash}.1`]);
  });

  it.each(["/proc/self/fd", "/workspace", "/dev", "/home/sandbox", "/"])(
    "is left alone if a hostile image links it to %s",
    async (to) => {
      const image = imageOf({ "/etc/ssl/certs": { to }, [to]: "directory" });
      const { bundles, hashed } = await findTrustStore(image, certificate);
      expect([...bundles, ...hashed]).toEqual([]);
    },
  );
});

describe("the files of a sandbox", () => {
  const read = async (): Promise<string> => await Promise.resolve("of the image\n\n");

  it("contain the certificates of the image and the new one", async () => {
    const store = await findTrustStore(imageOf(DEBIAN), certificate);
    const files = await trustFiles(store, read, certificate, "restricted");
    expect(files).toEqual([
      {
        path: "/etc/ssl/certs/ca-certificates.crt",
        content: `of the image\n${certificate}`,
      },
      { path: `/etc/ssl/certs/${hash}.0`, content: certificate },
    ]);
  });

  it("include the sources from which root builds the bundles", async () => {
    const store = await findTrustStore(imageOf(DEBIAN), certificate);
    const files = await trustFiles(store, read, certificate, "root");
    expect(files.map(({ path }) => path)).toContain(
      "/usr/local/share/ca-certificates/sandkasten-gateway.crt",
    );
  });
});
