/** Networks of containers through the daemon's gateway; `docker-network.test.ts` tests networks of the engine. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { networkSuite } from "@sandkasten/testkit";
import { beforeAll } from "vitest";
import { DOCKER_IMAGES, dockerUnderTest } from "../../../../../tests/support/docker-under-test.ts";
import { networkFixture } from "../../../../../tests/support/network-fixture.ts";
import { programsRootfs } from "../../../../../tests/support/small-debian.ts";

const image = DOCKER_IMAGES.programs;

beforeAll(async () => {
  const tarball = await programsRootfs();
  await promisify(execFile)("docker", ["-H", dockerUnderTest(), "import", tarball, image]);
}, 600_000);

networkSuite("docker", (network) => networkFixture("docker", network, { image }), {
  mode: "transparent",
});

networkSuite(
  "docker in the root profile",
  (network) => networkFixture("docker", network, { image, profile: "root" }),
  { mode: "transparent", parts: ["trust"] },
);
