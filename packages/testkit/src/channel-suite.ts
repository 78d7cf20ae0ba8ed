/** The conformance suite of the `Channel` port: every channel into a sandbox passes it. */
import { afterAll, beforeAll, describe } from "vitest";
import type { ChannelFixture, FixtureOf } from "./channel-fixture.ts";
import { archiveSuite } from "./suites/archives.ts";
import { execSuite } from "./suites/execs.ts";
import { fileSuite } from "./suites/files.ts";
import { namedShellSuite } from "./suites/named-shells.ts";
import { outputSuite } from "./suites/output.ts";
import { shellSuite } from "./suites/shell.ts";
import { sharingSuite } from "./suites/sharing.ts";

const PARTS = {
  "the shell": shellSuite,
  "named shells": namedShellSuite,
  commands: execSuite,
  output: outputSuite,
  files: fileSuite,
  archives: archiveSuite,
  sharing: sharingSuite,
} as const satisfies Record<string, (fixture: FixtureOf) => void>;

export interface ChannelSuiteOptions {
  /** All of them when absent. */
  readonly parts?: readonly (keyof typeof PARTS)[];
  /** Why the sandbox cannot be created here; the suite is then skipped with that reason in its name. */
  readonly unavailable?: string | undefined;
}

export function channelSuite(
  name: string,
  makeFixture: () => Promise<ChannelFixture>,
  { parts, unavailable }: ChannelSuiteOptions = {},
): void {
  const wanted = Object.entries(PARTS).filter(([part]) => parts?.some((p) => p === part) ?? true);
  const note = unavailable === undefined ? "" : ` (skipped: ${unavailable})`;
  describe.skipIf(unavailable !== undefined)(
    `${name} as a channel${note}`,
    { timeout: 30_000 },
    () => {
      describe.each(wanted)("%s", (_, part) => {
        let fixture: ChannelFixture | undefined;
        beforeAll(async () => {
          fixture = await makeFixture();
        });
        afterAll(async () => {
          fixture?.channel.close();
          await fixture?.close();
        });
        part(() => {
          if (fixture === undefined)
            throw new Error("the sandbox of this suite could not be created");
          return fixture;
        });
      });
    },
  );
}
