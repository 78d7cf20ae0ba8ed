/** Networks of containers that lead through the daemon; `docker-network.test.ts` is about those of the engine. */
import { networkSuite } from "@sandkasten/testkit";
import { networkFixture } from "../../../../../tests/support/network-fixture.ts";

networkSuite("docker", (network) => networkFixture("docker", network), { mode: "transparent" });
