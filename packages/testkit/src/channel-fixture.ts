/** What the conformance suite of the `Channel` port needs of a sandbox. */
import type { Channel, ExecCommand } from "./ports.ts";

/** One sandbox with a shell and the usual small programs (`echo`, `cat`, `sleep`, `printenv`, `tty`, …). */
export interface ChannelFixture {
  readonly channel: Channel;
  /** Another channel into the same sandbox; the suite closes it. */
  readonly reopen: () => Promise<Channel>;
  /** A program that listens on the port inside the sandbox and sends back what it gets. Absent when the sandbox has none: then that test is skipped. */
  readonly echoServer?: (port: number) => ExecCommand;
  /** The sandbox's kernel does not tell whose a listening socket is. */
  readonly hidesListeners?: boolean;
  /** Ends the sandbox. */
  readonly close: () => Promise<void>;
}

/** Gives the tests of a part the sandbox that was made for it. */
export type FixtureOf = () => ChannelFixture;
