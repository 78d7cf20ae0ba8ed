/** Creates a sandbox and reports on it as JSON; a test starts it as an unprivileged user. */
import { composeEmbedded } from "@sandkasten/daemon";
import { TEST_LIMITS, newSandboxId, testSandbox } from "../support/sandbox-machine.ts";

const dataDir = process.argv[2] ?? "";
const { backend } = await composeEmbedded({ dataDir, idsDir: `${dataDir}/ids` });
const id = newSandboxId();
await backend.create({
  id,
  image: "host",
  limits: TEST_LIMITS,
  profile: "restricted",
  env: {},
});
try {
  const channel = await backend.open(id);
  const { sh } = testSandbox(id, channel);
  await sh("cd /tmp; KEPT=yes");
  await channel.writeFile("file", Buffer.from("content"));
  const count = async (): Promise<string> =>
    (await sh("grep -lz '^sleep' /proc/[0-9]*/cmdline 2>/dev/null | wc -l")).stdout.trim();
  await sh("sleep 3999 &");
  // The job is a copy of the shell until it has become its program.
  let jobs = await count();
  for (const tries = AbortSignal.timeout(30_000); jobs === "0" && !tries.aborted;)
    jobs = await count();
  const late = await sh("setsid sleep 4000 & (setsid sleep 4001 &); sleep 4002", {
    timeoutMs: 1_000,
  });
  const told = {
    shell: (await sh("echo $KEPT; pwd; cat /workspace/file")).stdout,
    timeout: late.reason,
    jobs,
    survivors: await count(),
    network: (await sh("cat /proc/net/dev | grep -c :")).stdout.trim(),
    isolation: await backend.isolation(id),
  };
  channel.close();
  await backend.destroy(id);
  console.log(JSON.stringify({ ...told, left: await backend.list() }));
} finally {
  await backend.destroy(id);
}
