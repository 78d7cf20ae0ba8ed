/** What the parts of the network suite share. */
import type { Channel } from "../../ports.ts";
import type { CommandResult } from "../run-command.ts";
import type { TestNetwork } from "./test-network.ts";
import type { Served } from "./world.ts";

export interface NetworkSetup {
  readonly network: TestNetwork;
  readonly mode: "transparent" | "proxy";
  readonly channel: Channel;
  /** `web.test`: responds with the request that it received. */
  readonly web: Served;
  /** `echo.test`: echoes its input. */
  readonly echo: Served;
  /** The requests that `web.test` received, in order. */
  readonly requests: string[];
  /** The size of the large download. */
  readonly mebibytes: number;
  /** Runs in the shell; PORT is replaced by the port of `web.test`. */
  readonly sh: (command: string) => Promise<CommandResult>;
}
