/** Queries the machine's name servers for the addresses of a name. */
import { Resolver } from "node:dns/promises";

/** All addresses of a name, the preferred ones first. */
export type ResolveName = (name: string) => Promise<readonly string[]>;

const TIMEOUT_MS = 3_000;
const TRIES = 2;

/**
 * Queries name servers directly, as `/etc/resolv.conf` or the caller names them: a system lookup
 * would occupy one of the few threads that all files and sessions share, so names without a response
 * would block everything else.
 */
export function nameResolver(servers?: readonly string[]): ResolveName {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers !== undefined) resolver.setServers(servers);
  return async (name) => {
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const addresses = answers.flatMap((answer) =>
      answer.status === "fulfilled" ? answer.value : [],
    );
    const [failure] = answers.filter((answer) => answer.status === "rejected");
    if (addresses.length === 0 && failure !== undefined) throw failure.reason;
    return addresses;
  };
}
