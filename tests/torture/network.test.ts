/** Networks of sandboxes: real programs, attacks and load, on the runtime under test. */
import { networkSuite } from "@sandkasten/testkit";
import { networkFixture } from "../support/network-fixture.ts";
import { rounds } from "../support/rounds.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";

const runtime = runtimeUnderTest();

networkSuite(runtime, (network) => networkFixture(runtime, network), {
  mode: "transparent",
  mebibytes: rounds({ slice: 64, torture: 1024 }),
});

networkSuite(
  `${runtime} in the root profile`,
  (network) => networkFixture(runtime, network, { profile: "root" }),
  { mode: "transparent", parts: ["trust"] },
);
