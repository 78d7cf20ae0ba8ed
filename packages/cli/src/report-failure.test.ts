/** Every failure says what happened and what to do, and both are correct. */
import { createServer } from "node:net";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../../tests/support/free-port.ts";
import { ERROR_CATALOGUE, SandboxError } from "../../protocol/src/errors.ts";
import { describeFailure, HINTS } from "./report-failure.ts";
import { TestDaemon } from "./testing/test-daemon.ts";
import { TestCli } from "./testing/test-host.ts";

let daemon: TestDaemon;
let scratch: string;
let session: string;
/** `RUDE` accepts connections and closes them; nothing listens at `CLOSED`. */
const addresses = new Map<string, string>();
const server = createServer((socket) => socket.destroy());

beforeAll(async () => {
  daemon = await TestDaemon.start();
  session = await daemon.open();
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-failures-"));
  await mkdir(join(scratch, "directory"));
  await writeFile(join(scratch, "file"), "text");
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  addresses.set("RUDE", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  addresses.set("CLOSED", `http://127.0.0.1:${await freePort()}`);
});
afterAll(async () => {
  server.close();
  await daemon[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

describe("a hint", () => {
  it("exists for every code that the daemon can return", () => {
    const without = Object.keys(ERROR_CATALOGUE).filter((code) => !Object.hasOwn(HINTS, code));
    // Its hint contains the id of the request.
    expect(without).toEqual(["INTERNAL_ERROR"]);
  });
});

interface Case {
  readonly args: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly code?: number;
  readonly says: RegExp;
  readonly hint: RegExp;
}

const NOWHERE = { SANDKASTEN_URL: "CLOSED" };

describe("a refusal", () => {
  it.each([
    [{ operation: "write", reason: "permission" }, /^Code in a sandbox can write to \/workspace/],
    [undefined, /^Leave out what is not allowed, or ask the administrator/],
  ])("has a hint for the one who refused: %j", (details, hint) => {
    const error = new SandboxError("PERMISSION_DENIED", "no", { ...(details && { details }) });
    expect(describeFailure(error).hint).toMatch(hint);
  });
});

describe("a failure", () => {
  const cases: readonly Case[] = [
    // Local mistakes are reported before the command connects to a daemon.
    {
      args: "image import x:1 no.tar",
      env: NOWHERE,
      says: /^no\.tar does not exist\./,
      hint: /^Check the path on this machine\.$/,
    },
    {
      args: "image import x:1 directory",
      env: NOWHERE,
      says: /^directory is a directory, not a file/,
      hint: /^Check the path on this machine\.$/,
    },
    {
      args: "image import x:1 file/below",
      env: NOWHERE,
      says: /^file\/below is not a directory, or is below a file/,
      hint: /^Check the path on this machine\.$/,
    },
    {
      args: "image import x:1 file",
      env: NOWHERE,
      says: /^No daemon answers at 127\.0\.0\.1:\d+\./,
      hint: /sandkasten start/,
    },
    { args: "image rm no:1", says: /there is no image no:1/, hint: /image ls` shows the images/ },
    {
      args: "cp no.txt SESSION:/workspace",
      says: /^no\.txt does not exist\./,
      hint: /SESSION:path/,
    },
    {
      args: "cp SESSION:/no/file here",
      says: /no\/file/,
      hint: /relative paths start at \/workspace/,
    },
    {
      args: "cp no.txt SESSION:/workspace",
      env: NOWHERE,
      says: /^no\.txt does not exist\./,
      hint: /SESSION:path/,
    },
    { args: "cp file SESSION:/workspace/a", code: 0, says: /^/, hint: /^/ },
    {
      args: "cp SESSION:/workspace/a /proc/none/a",
      says: /^\/proc\/none cannot be created\./,
      hint: /path on this machine/,
    },
    {
      args: "cp SESSION:/workspace/a file/below",
      says: /^file\/below is not a directory, or is below a file/,
      hint: /path on this machine/,
    },
    ...[
      "exec ses_none -- true",
      "rm ses_none",
      "logs ses_none",
      "ps ses_none",
      "stats ses_none",
      "isolation ses_none",
      "pause ses_none",
      "cp ses_none:/a here",
      "cp file ses_none:/a",
    ].map((args) => ({
      args,
      says: /no session ses_none/,
      hint: /^List sessions with `sandkasten ls`/,
    })),
    {
      args: "open --image no/such:1",
      says: /there is no image no\/such:1/,
      hint: /sandkasten image ls/,
    },
    { args: "open --workspace UPPER", says: /workspace_id/, hint: /Correct the value/ },
    { args: "open --profile none", code: 2, says: /--profile/, hint: /`sandkasten open --help`/ },
    {
      args: "open --network",
      says: /network/,
      hint: /^Leave out what is not allowed, or ask the administrator/,
    },
    {
      args: "forward SESSION 99999",
      code: 2,
      says: /'99999' is invalid for argument 'ports'\. It must be a port/,
      hint: /`sandkasten forward --help`/,
    },
    {
      args: "init --output no/such.yaml",
      says: /\/no\/such\.yaml does not exist/,
      hint: /^Check the path on this machine\.$/,
    },
    { args: "frobnicate", code: 2, says: /unknown command/, hint: /`sandkasten --help`/ },
    {
      args: "--url http://x exec",
      code: 2,
      says: /missing required argument/,
      hint: /`sandkasten exec --help`/,
    },
    {
      args: "workspace create",
      code: 2,
      says: /missing required argument/,
      hint: /`sandkasten workspace create --help`/,
    },
    {
      args: "ls",
      env: { SANDKASTEN_API_KEY: "not-the-key" },
      says: /key/,
      hint: /SANDKASTEN_API_KEY or --api-key/,
    },
    {
      args: "ls",
      env: NOWHERE,
      says: /^No daemon answers at 127\.0\.0\.1:\d+\./,
      hint: /sandkasten start/,
    },
    {
      args: "ls",
      env: { SANDKASTEN_URL: "http://127.0.0.1:1" },
      says: /port/,
      hint: /--url or SANDKASTEN_URL/,
    },
    {
      args: "ls",
      env: { SANDKASTEN_URL: "http://no-such-name.invalid" },
      says: /no-such-name\.invalid cannot be resolved/,
      hint: /--url or SANDKASTEN_URL/,
    },
    {
      args: "ls",
      env: { SANDKASTEN_URL: "RUDE" },
      says: /closed before the response was complete/,
      hint: /Try again/,
    },
    {
      args: "ls",
      env: { SANDKASTEN_URL: "nonsense" },
      code: 2,
      says: /nonsense/,
      hint: /http:\/\/127\.0\.0\.1:8080/,
    },
    {
      args: "--config no.yaml config",
      says: /no\.yaml does not exist/,
      hint: /^Correct the named file, variable or flag/,
    },
    {
      args: "--config directory config",
      says: /not a regular file/,
      hint: /^Correct the named file, variable or flag/,
    },
    {
      args: "daemon --set lisen=1",
      says: /nearest known/,
      hint: /^Correct the named file, variable or flag/,
    },
    {
      args: "daemon --data-dir /proc/none",
      says: /\/proc\/none, which is not writable/,
      hint: /^Correct the named file, variable or flag/,
    },
  ];

  it.each(cases)("of `$args` says so", async ({ args, env = {}, code = 1, says, hint }) => {
    const given = Object.fromEntries(
      Object.entries(env).map(([name, value]) => [name, addresses.get(value) ?? value]),
    );
    const words = args.replace("SESSION", session).split(" ");
    const isLocal = words[0] === "daemon" || words.includes("config");
    const options = { cwd: scratch, env: given };
    const run = isLocal ? await new TestCli(words, options).done : await daemon.run(words, options);
    const [first = "", second = ""] = run.stderr.split("\n");
    expect(run).toMatchObject({ code });
    if (code === 0) return;
    expect(first.replace(/^✗ /, "")).toMatch(says);
    expect(second.replace(/^→ /, "")).toMatch(hint);
  });
});
