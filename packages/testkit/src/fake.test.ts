import { backendSuite } from "./backend-suite.ts";
import { channelSuite } from "./channel-suite.ts";
import { FakeBackend, FakeMachine } from "./fake/fake-backend.ts";
import { FakeChannel } from "./fake/fake-channel.ts";
import { FakeSandbox } from "./fake/fake-sandbox.ts";

channelSuite("the fake", () => {
  const sandbox = new FakeSandbox();
  return Promise.resolve({
    channel: new FakeChannel(sandbox),
    reopen: () => Promise.resolve(new FakeChannel(sandbox)),
    echoServer: (port) => ({ kind: "process", argv: ["echo-server", String(port)] }),
    close: () => Promise.resolve(sandbox.destroy()),
  });
});

backendSuite("the fake", () => {
  const machine = new FakeMachine();
  return Promise.resolve({
    backend: new FakeBackend(machine),
    image: "host",
    reopen: () => Promise.resolve(new FakeBackend(machine)),
    close: () => Promise.resolve(),
  });
});
