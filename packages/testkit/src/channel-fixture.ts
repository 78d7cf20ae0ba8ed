/** What the conformance suite of the `Channel` port needs from a sandbox. */
import type { Channel, ExecCommand } from "./ports.ts";

/** One sandbox with a shell and the usual small programs (`echo`, `cat`, `sleep`, `printenv`, `tty`, …). */
export interface ChannelFixture {
  readonly channel: Channel;
  /** Another channel into the same sandbox; the suite closes it. */
  readonly reopen: () => Promise<Channel>;
  /**
   * A program that listens on the port inside the sandbox and echoes its input. Absent if the
   * sandbox has none: that test is then skipped.
   */
  readonly echoServer?: (port: number) => ExecCommand;
  /** The sandbox's kernel does not reveal who owns a listening socket. */
  readonly hidesListeners?: boolean;
  /** Destroys the sandbox. */
  readonly close: () => Promise<void>;
}

/** Returns the sandbox that was created for a part of the suite. */
export type FixtureOf = () => ChannelFixture;
