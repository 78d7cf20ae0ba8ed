import { SandboxClient } from "@sandkasten/sdk";
import { sandkasten } from "@sandkasten/tools/computesdk";
import { compute } from "computesdk";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
compute.setConfig({ provider: sandkasten({ client }) });

const sandbox = await compute.sandbox.create({ image: "python" });
try {
  await sandbox.filesystem.writeFile(
    "fib.py",
    "a, b = 0, 1\nfor _ in range(5):\n    print(a)\n    a, b = b, a + b\n",
  );
  const { stdout, exitCode } = await sandbox.runCommand("python3 fib.py");
  console.log(exitCode, stdout.split("\n").join(" "));
} finally {
  await sandbox.destroy();
}
