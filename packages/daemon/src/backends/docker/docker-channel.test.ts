/** The channel into a container passes the suite of every channel. */
import { channelSuite } from "@sandkasten/testkit";
import { afterAll, beforeAll } from "vitest";
import { DOCKER_IMAGES } from "../../../../../tests/support/docker-under-test.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

const ECHO_SERVER = `
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 5) or die;
while (my $peer = $server->accept) {
  next if fork;
  while (sysread $peer, my $data, 65536) { syswrite $peer, $data }
  shutdown $peer, 1;
  exit;
}
`;

let machine: DockerMachine;
beforeAll(async () => {
  machine = await DockerMachine.start();
  // While one sandbox exists, the others need not create the runner's volume again.
  await machine.create();
});
afterAll(() => machine[Symbol.asyncDispose]());

channelSuite("docker", async () => {
  const { id } = await machine.create({ image: DOCKER_IMAGES.debian });
  return {
    channel: await machine.backend.open(id),
    reopen: () => machine.backend.open(id),
    echoServer: (port) => ({
      kind: "process",
      argv: ["/usr/bin/perl", "-e", ECHO_SERVER, String(port)],
    }),
    close: () => machine.backend.destroy(id),
  };
});
