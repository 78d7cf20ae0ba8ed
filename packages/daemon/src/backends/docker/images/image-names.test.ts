import { expect, test } from "vitest";
import { DockerImageStore } from "../docker-image-store.ts";

test.each([
  "--privileged",
  "-v",
  "../../containers",
  "/etc/passwd",
  "a/../b",
  "a/../../containers/json",
  "x?fromSrc=http://evil.example",
  "x&tag=y",
  "x#y",
  "x%2fy",
  "a b",
  "a\nb",
  "späß",
  "x".repeat(10_240),
  "host:1",
])("every method refuses %j before it contacts the engine", async (name) => {
  const store = new DockerImageStore({
    connection: { host: "unix:///nonexistent/docker.sock" },
    policy: { allowedImages: [] },
    pullPolicy: "missing",
    dockerConfigDir: "/nonexistent",
  });
  for (const call of [
    () => store.resolve(name),
    () => store.ensure(name),
    () => store.pull(name),
    () => store.inspect(name),
    () => store.remove(name),
    () => store.importRootfs(name, "/nonexistent/archive"),
    () => store.importOciArchive(name, "/nonexistent/archive"),
  ])
    await expect(call()).rejects.toEqual(expect.objectContaining({ code: "INVALID_IMAGE" }));
});
