/** The npm packages on a machine with only Node and npm. */
import { basename } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CleanMachine } from "../support/clean-machine.ts";
import { ReleaseBuild } from "../support/release-build.ts";

const TIMEOUT_MS = 15 * 60_000;

/** Starts the daemon, waits for the last line of its greeting, and stops it at the end of the script. */
const START = `
sandkasten start "$@" >started 2>&1 &
daemon=$!
trap 'kill $daemon && wait $daemon; cat started; sandkasten sweep --yes' EXIT
for _ in $(seq 600); do
  if grep -q "^Ctrl-C stops" started; then break; fi
  kill -0 $daemon
  sleep 0.1
done
grep -q "^Ctrl-C stops" started
`;

let release: ReleaseBuild;
let machine: CleanMachine;
beforeAll(async () => {
  release = await ReleaseBuild.create("npm");
  machine = await CleanMachine.create();
  await machine.installNode();
  for (const name of ["sandkasten-*.tgz", "sandkasten-sdk-*.tgz"]) {
    const file = await release.file(name);
    await machine.copy(file, `root/${basename(file).replace(/-\d.*$/, "")}.tgz`);
  }
}, TIMEOUT_MS);
afterAll(async () => {
  await machine?.[Symbol.asyncDispose]();
  await release?.[Symbol.asyncDispose]();
});

describe("sandkasten from npm", { timeout: TIMEOUT_MS }, () => {
  test("installs from its one file, without a network or a compiler, and its first steps work", async () => {
    const said = await machine.run(`
      for tool in cc gcc rustc cargo git; do refuse command -v $tool; done
      npm install -g sandkasten.tgz
      sandkasten --version
      ${START}
      sandkasten run -- 'echo hello from $PWD'
      id=$(sandkasten open)
      echo 'print(6 * 7)' > answer.py
      sandkasten cp answer.py $id:answer.py
      sandkasten exec $id -- python3 answer.py
      key=$(cat /var/lib/sandkasten/api-key)
      curl -s http://127.0.0.1:8080/v1/sessions -H "Authorization: Bearer $key" -d '{}'
      echo
      sandkasten rm $id
    `);
    expect(said).toContain("hello from /workspace\n");
    expect(said).toContain("42\n");
    expect(said).toMatch(/"id":"ses_[^"]+".*"status":"running"/);
    expect(said).toMatch(/✓ Start the agent service http:\/\/127\.0\.0\.1:8587/);
    expect(said).toContain("\nsandkasten run -- echo hello\n");
  });

  test("says which package is missing when npm left out the native programs", async () => {
    const said = await machine.run(`
      rm -r /usr/local/lib/node_modules/sandkasten/node_modules/@sandkasten/native-linux-x64
      sandkasten start 2>&1 || echo "exit code $?"
    `);
    expect(said).toContain("The package @sandkasten/native-linux-x64 is not installed");
    expect(said).toContain("exit code 1");
  });

  test("the SDK installs from its tarball and can be imported and required", async () => {
    const said = await machine.run(`
      mkdir project && cd project && echo '{}' > package.json
      npm install --offline --ignore-scripts --no-audit --no-fund ../sandkasten-sdk.tgz
      node --input-type=module -e 'import { SandboxClient } from "@sandkasten/sdk"; console.log("esm", typeof SandboxClient)'
      node --input-type=commonjs -e 'console.log("cjs", typeof require("@sandkasten/sdk").SandboxClient)'
    `);
    expect(said).toContain("esm function\ncjs function\n");
  });
});
