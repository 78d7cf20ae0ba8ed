import { describe, expect, test } from "vitest";
import { parseReference } from "../../../images/reference.ts";
import { pullFailure, withoutSecrets } from "./pull-failure.ts";

const reference = parseReference("registry.invalid:5000/denied/timeout-app:1");

/** Messages of engines and registries. */
test.each([
  [
    "manifest for registry.invalid:5000/denied/timeout-app:1 not found: manifest unknown",
    "INVALID_IMAGE",
  ],
  [
    "pull access denied for x, repository does not exist or may require 'docker login'",
    "INVALID_IMAGE",
  ],
  [
    'Get "https://registry.invalid:5000/v2/": unauthorized: incorrect username or password',
    "INVALID_IMAGE",
  ],
  [
    'Head "http://registry.invalid:5000/v2/denied/timeout-app/manifests/1": no basic auth credentials',
    "INVALID_IMAGE",
  ],
  [
    'error parsing HTTP 403 response body: unexpected end of JSON input: "" forbidden',
    "INVALID_IMAGE",
  ],
  ["no matching manifest for linux/amd64 in the manifest list entries", "INVALID_IMAGE"],
  [
    'Get "https://registry.invalid:5000/v2/": x509: certificate signed by unknown authority',
    "INVALID_IMAGE",
  ],
  [
    "failed to register layer: Error processing tar file(exit status 1): unexpected EOF",
    "INVALID_IMAGE",
  ],
  ["filesystem layer verification failed for digest sha256:00", "INVALID_IMAGE"],
  ["something that nobody has seen yet", "INVALID_IMAGE"],
  [
    'Get "https://registry.invalid:5000/v2/": dial tcp: lookup registry.invalid on 10.0.0.1:53: no such host',
    "REGISTRY_UNREACHABLE",
  ],
  [
    'Get "https://registry.invalid:5000/v2/": dial tcp 127.0.0.1:5000: connect: connection refused',
    "REGISTRY_UNREACHABLE",
  ],
  [
    'Get "https://registry.invalid:5000/v2/": net/http: TLS handshake timeout',
    "REGISTRY_UNREACHABLE",
  ],
  ['Get "https://registry.invalid:5000/v2/": context deadline exceeded', "REGISTRY_UNREACHABLE"],
  ["toomanyrequests: You have reached your pull rate limit", "REGISTRY_UNREACHABLE"],
  ["received unexpected HTTP status: 503 Service Unavailable", "REGISTRY_UNREACHABLE"],
  ["unexpected EOF", "REGISTRY_UNREACHABLE"],
  ["failed to register layer: write /large: no space left on device", "STORAGE_FULL"],
])("the engine's message %j is reported as %s", (message, code) => {
  const failure = pullFailure(reference, message);
  expect(failure.code).toBe(code);
  // Details that the engine met must not be shown.
  expect(failure.message).not.toMatch(/dial|10\.0\.0\.1|127\.0\.0\.1|status|response|Get |EOF/);
  expect(failure.message).toContain("registry.invalid:5000/denied/timeout-app:1 cannot be pulled");
});

describe("withoutSecrets()", () => {
  test("removes tokens, signatures, user names and passwords", () => {
    const shown = withoutSecrets(
      'Get "https://alice:pass-1@auth.example.com/token?account=alice&sig=abc": Get https://s3.example.com/blob?X-Amz-Signature=def: pass-2 is wrong\nsecond line',
      ["pass-2"],
    );
    expect(shown).toBe(
      'Get "https://auth.example.com/token?…": Get https://s3.example.com/blob?… … is wrong second line',
    );
  });

  test("keeps messages short", () => {
    expect(withoutSecrets("x".repeat(10_000), []).length).toBeLessThanOrEqual(300);
  });
});
