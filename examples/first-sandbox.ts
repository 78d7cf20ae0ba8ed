import { SandboxClient } from "@sandkasten/sdk";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
await using session = await client.createSession({ image: "python", ttlSeconds: 600 });

await session.write("squares.py", "print([n * n for n in range(int(input()))])\n");
const squares = await session.exec(["python3", "squares.py"], { stdin: "5\n" });
console.log(squares.exitCode, squares.stdout.trim());

await session.exec("cd /tmp && export NAME=Sandkasten"); // The shell remembers.
const { output } = await session.exec('echo "hello from $NAME in $PWD"');
console.log(output.trim());

const stream = session.stream("for i in 3 2 1; do echo $i; sleep 0.1; done; echo gone >&2; exit 7");
for await (const chunk of stream) console.log(chunk.stream, chunk.text.trim());
console.log("exit code", (await stream.result).exitCode);
