/** The npm packages on a machine with Node and npm, and nothing else of ours. */
import { execFile } from "node:child_process";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CleanMachine } from "../support/clean-machine.ts";
import { ReleaseBuild } from "../support/release-build.ts";

const TIMEOUT_MS = 15 * 60_000;
const ROOT = join(import.meta.dirname, "../..");

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
  test("installs from a single file, without a network or a compiler, and its first steps work", async () => {
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

  test("says which package is missing if npm left out the native programs", async () => {
    const said = await machine.run(`
      rm -r /usr/local/lib/node_modules/sandkasten/node_modules/@sandkasten/native-linux-x64
      sandkasten start 2>&1 || echo "exit code $?"
    `);
    expect(said).toContain("The package @sandkasten/native-linux-x64 is not installed");
    expect(said).toContain("exit code 1");
  });

  test("the SDK installs, runs and type-checks on each Node, as both kinds of module", async () => {
    const script = join(ROOT, "scripts/setup-test-runtimes.sh");
    const runtimes = (await promisify(execFile)("bash", [script])).stdout.trim();
    await machine.copy(join(runtimes, "node"), "opt/node20/node");
    await machine.copy(join(runtimes, "node22"), "opt/node22/node");
    await machine.copy(join(ROOT, "node_modules/typescript"), "root/typescript");
    const said = await machine.run(`
      for directory in /opt/node20 /opt/node22 /usr/local/bin; do (
        PATH=$directory:$PATH
        rm -rf project && mkdir project && cd project && echo '{}' > package.json
        npm install --offline --engine-strict ../sandkasten-sdk.tgz >/dev/null
        version=$(node -p 'process.versions.node.split(".")[0]')
        node --input-type=module -e 'import { SandboxClient } from "@sandkasten/sdk"; console.log('$version', "esm", typeof SandboxClient)'
        node --input-type=commonjs -e 'console.log('$version', "cjs", typeof require("@sandkasten/sdk").SandboxClient)'
        cat > right.mts <<'END'
          import { SandboxClient, type Session } from "@sandkasten/sdk";
          export const session: Session = await new SandboxClient().createSession({ image: "python" });
END
        cat > right.cts <<'END'
          import sdk = require("@sandkasten/sdk");
          export const client: sdk.SandboxClient = new sdk.SandboxClient({ baseUrl: "http://127.0.0.1" });
END
        for extension in mts cts; do sed 's/= new /= 1 + new /; s/image: /imagee: /' right.$extension > wrong.$extension; done
        for kind in node16 "preserve --moduleResolution bundler"; do
          check() {
            node ../typescript/bin/tsc --ignoreConfig --noEmit --strict --target es2022 --lib es2022,dom --module $kind "$@"
          }
          check right.mts right.cts
          for extension in mts cts; do refuse check wrong.$extension; done
          echo "$version types by $kind"
        done
      ); done
    `);
    const expected = [20, 22, 24].flatMap((node) => [
      `${node} esm function`,
      `${node} cjs function`,
      `${node} types by node16`,
      `${node} types by preserve --moduleResolution bundler`,
    ]);
    expect(said.trim().split("\n")).toEqual(expected);
  });
});
