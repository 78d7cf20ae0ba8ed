/**
 * Shared by the tests of several packages: conformance suites of the ports, fakes that pass them,
 * and a scripted runner.
 */
export * from "./backend-suite.ts";
export type * from "./channel-fixture.ts";
export * from "./channel-suite.ts";
export * from "./event-log-suite.ts";
export * from "./fake/fake-backend.ts";
export * from "./journal-suite.ts";
export * from "./key-store-suite.ts";
export * from "./otlp-receiver.ts";
export * from "./network-suite.ts";
export { gitRepository, npmRegistry, pythonIndex } from "./suites/network/repositories.ts";
export { serveFiles } from "./suites/network/world.ts";
export { TestNetwork } from "./suites/network/test-network.ts";
export * from "./scripted-runner.ts";
export * from "./store-suite.ts";
export * from "./tar-archive.ts";
