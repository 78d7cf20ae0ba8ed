import { SandboxClient, SandboxError } from "@sandkasten/sdk";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});

/** All callers that name the run get the same sandbox. */
const open = () => client.createSession({ key: "workflow:run_42", workspaceId: "report" });

const writer = await open();
await writer.write("fib.py", "def fib(n): return n if n < 2 else fib(n - 1) + fibb(n - 2)\n");

const tester = await open();
console.log("one sandbox:", tester.id === writer.id);
const test = "python3 -c 'import fib; print(fib.fib(10))'";
const failed = await tester.exec(test);
console.log(failed.exitCode, failed.stderr.match(/NameError: name '\w+'/)?.[0]);

await tester.exec("sed -i s/fibb/fib/ fib.py");
console.log((await tester.exec(`${test} | tee result.txt`)).output.trim());

try {
  await tester.exec("echo working; sleep 60", { timeoutMs: 500 });
} catch (error) {
  if (!(error instanceof SandboxError)) throw error;
  console.log(error.code, error.result?.output.trim());
}

await tester.destroy();
console.log("kept:", (await client.workspaces.files("report").readText("result.txt")).trim());
await client.workspaces.delete("report");
