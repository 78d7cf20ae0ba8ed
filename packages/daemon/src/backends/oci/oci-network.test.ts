/** Networks of embedded sandboxes on the runtimes that tests/torture/network.test.ts does not test in every run. */
import { networkSuite } from "@sandkasten/testkit";
import { whyNoGvisor } from "../../../../../tests/support/gvisor.ts";
import { networkFixture } from "../../../../../tests/support/network-fixture.ts";

networkSuite("runc", (network) => networkFixture("runc", network), {
  mode: "transparent",
  parts: ["trust"],
});

networkSuite("runsc", (network) => networkFixture("runsc", network), {
  mode: "transparent",
  parts: ["attacks", "trust"],
  unavailable: whyNoGvisor(),
});
