/** The Docker backend passes the suite of every backend. */
import { backendSuite } from "@sandkasten/testkit";
import { describe, expect, test } from "vitest";
import { DOCKER_IMAGES } from "../../../../../tests/support/docker-under-test.ts";
import { testSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

backendSuite("docker", async () => {
  const machine = await DockerMachine.start();
  // While one sandbox exists, the others need not create the runner's volume again.
  await machine.create();
  return {
    backend: machine.backend,
    image: DOCKER_IMAGES.debian,
    reopen: () => machine.reopen(),
    close: () => machine[Symbol.asyncDispose](),
  };
});

describe("an unmodified image", () => {
  test.each([
    ["busybox", ["echo", "hello"], "hello\n"],
    ["bare", ["/bin/busybox", "echo", "hello"], "hello\n"],
    ["debian", ["printenv", "FROM_IMAGE"], "yes\n"],
  ] as const)(
    "%s runs programs and has files, with a shell or without",
    async (name, argv, said) => {
      await using machine = await DockerMachine.start();
      const { id, imageDigest } = await machine.create({ image: DOCKER_IMAGES[name] });
      expect(imageDigest).toMatch(/^sha256:[0-9a-f]{64}$/u);
      const { channel, run, sh } = testSandbox(id, await machine.backend.open(id));
      expect(await run(argv)).toMatchObject({ exitCode: 0, stdout: said });
      await channel.writeFile("dir/file", Buffer.from("content"));
      expect(await channel.stat("/work/dir/file")).toMatchObject({ size: 7 });
      if (name === "bare")
        await expect(sh("echo never")).rejects.toMatchObject({ code: "NO_SHELL" });
      else expect(await sh("cat dir/file")).toMatchObject({ stdout: "content" });
      channel.close();
    },
  );
});
