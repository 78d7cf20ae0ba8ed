import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:tls";
import type { SecureContext } from "node:tls";
import { afterAll, beforeAll, expect, it } from "vitest";
import { SessionCa } from "./session-ca.ts";

const nowMs = Date.now();
let own: SessionCa;
let other: SessionCa;
let context: SecureContext;
beforeAll(async () => {
  own = new SessionCa(await SessionCa.make(nowMs));
  other = new SessionCa(await SessionCa.make(nowMs));
  context = await own.contextFor("api.example.com", nowMs);
});

const server = createServer({
  SNICallback: (_, done) => done(null, context),
});
server.on("tlsClientError", () => undefined);
server.on("secureConnection", (socket) => socket.on("error", () => undefined).end("hello"));
beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterAll(() => {
  server.close();
});

/** The server's certificate if a program that trusts `ca` accepts it. */
async function handshake(ca: SessionCa, servername: string): Promise<X509Certificate> {
  const { port } = server.address() as AddressInfo;
  const socket = connect({ host: "127.0.0.1", port, servername, ca: ca.certificate });
  try {
    await once(socket, "secureConnect");
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined) throw new Error("the server showed no certificate");
    return certificate;
  } finally {
    socket.destroy();
  }
}

it("a sandbox that trusts the authority accepts its certificate for the host", async () => {
  const certificate = await handshake(own, "api.example.com");
  expect(certificate.subjectAltName).toBe("DNS:api.example.com");
  expect(certificate.ca).toBe(false);
});

it("a sandbox with another authority does not", async () => {
  await expect(handshake(other, "api.example.com")).rejects.toMatchObject({
    code: expect.stringMatching(/SELF_SIGNED|UNABLE_TO_VERIFY|CERT_SIGNATURE_FAILURE/) as string,
  });
});

it("the certificate of one host is not valid for another", async () => {
  await expect(handshake(own, "other.example.com")).rejects.toMatchObject({
    code: "ERR_TLS_CERT_ALTNAME_INVALID",
  });
});

it("the sandbox gets the certificate of the authority but never its key", () => {
  expect(own.certificate).toContain("BEGIN CERTIFICATE");
  expect(own.certificate).not.toContain("PRIVATE KEY");
  expect(JSON.stringify(own)).not.toContain("PRIVATE KEY");
  const certificate = new X509Certificate(own.certificate);
  expect(certificate.ca).toBe(true);
  expect(certificate.checkIssued(certificate)).toBe(true);
});
