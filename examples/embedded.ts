import { composeEmbedded } from "@sandkasten/daemon";

const { backend } = await composeEmbedded({ dataDir: process.argv[2] ?? "/var/lib/sandkasten" });
const id = "sbx_example";
await backend.create({
  id,
  image: "host",
  profile: "restricted",
  limits: {
    memoryBytes: 512 * 2 ** 20,
    cpuMillicores: 1000,
    pids: 256,
    diskBytes: 512 * 2 ** 20,
    diskInodes: 65_536,
  },
  env: {},
});
try {
  const channel = await backend.open(id);
  await channel.writeFile("hello.sh", Buffer.from("echo hello from $PWD\n"));
  const command = { kind: "shell", text: "cd /tmp && sh /workspace/hello.sh" } as const;
  const exec = await channel.exec(command, { execId: "first", timeoutMs: 10_000 });
  for await (const { bytes } of exec) process.stdout.write(bytes);
  const { exitCode, cwd } = await exec.ended;
  console.log(`exit ${exitCode}, the shell is now in ${cwd}`);
  channel.close();
} finally {
  await backend.destroy(id);
}
