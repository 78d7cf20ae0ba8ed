/** The contracts of the backend and of the channel, on gVisor. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { composeEmbedded } from "@sandkasten/daemon";
import { backendSuite, channelSuite } from "@sandkasten/testkit";
import { describe, test } from "vitest";
import { RUNTIME_DIR, whyNoGvisor } from "../support/gvisor.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { TEST_LIMITS } from "../support/sandbox-machine.ts";

const reason =
  runtimeUnderTest() === "runsc"
    ? whyNoGvisor()
    : "oci-backend.test.ts holds crun and runc to these contracts";

const ECHO_SERVER = `
import socket, sys, threading
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def serve(peer):
    while data := peer.recv(65536): peer.sendall(data)
    peer.shutdown(socket.SHUT_WR)
while True: threading.Thread(target=serve, args=(server.accept()[0],)).start()
`;

test("the contracts are tested", ({ skip }) => skip(reason !== undefined, reason));

describe.skipIf(reason !== undefined)("with runsc", () => {
  const compose = (dataDir: string) =>
    composeEmbedded({ dataDir, runtime: "runsc", runtimeDir: RUNTIME_DIR });

  backendSuite("oci (runsc)", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
    const { backend } = await compose(dataDir);
    return {
      backend,
      image: "host",
      reopen: async () => (await compose(dataDir)).backend,
      close: () => rm(dataDir, { recursive: true, force: true }),
    };
  });

  channelSuite("oci (runsc)", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
    const { backend } = await compose(dataDir);
    const id = "sbx_channelsuite";
    try {
      await backend.create({
        id,
        image: "host",
        limits: { ...TEST_LIMITS, diskInodes: 65_536 },
        profile: "restricted",
        env: {},
      });
    } catch (error) {
      await rm(dataDir, { recursive: true, force: true });
      throw error;
    }
    return {
      channel: await backend.open(id),
      reopen: () => backend.open(id),
      echoServer: (port) => ({
        kind: "process",
        argv: ["/usr/bin/python3", "-c", ECHO_SERVER, String(port)],
      }),
      hidesListeners: true,
      close: async () => {
        await backend.destroy(id);
        await rm(dataDir, { recursive: true, force: true });
      },
    };
  });
});
