/** What a sandbox whose network leads through the daemon needs: the way to the proxy, and low ports. */
import type { SandboxNetwork } from "../../ports/backend.ts";

/** Where the runner has its proxy. */
const PROXY = "http://127.0.0.1:3128";
const LOCAL = "localhost,127.0.0.1,::1";

/**
 * As programs expect them: some in capitals, some not. Node's fetch looks only when it is told to.
 * `all_proxy` names HTTP too: clients in Python refuse to start when it names SOCKS without the
 * library for that.
 */
export const PROXY_VARIABLES: Readonly<Record<string, string>> = {
  http_proxy: PROXY,
  https_proxy: PROXY,
  all_proxy: PROXY,
  no_proxy: LOCAL,
  HTTP_PROXY: PROXY,
  HTTPS_PROXY: PROXY,
  ALL_PROXY: PROXY,
  NO_PROXY: LOCAL,
  NODE_USE_ENV_PROXY: "1",
};

/**
 * The runner listens on port 53, and for other hosts on 80 and 443, without the capability for it.
 *
 * SECURITY: this holds in the network namespace of the sandbox alone, where a low port is worth no more
 * than another: whatever code puts there, only the sandbox itself sees.
 */
export function networkSysctls(network: SandboxNetwork | undefined): Record<string, string> {
  return network === "gateway" ? { "net.ipv4.ip_unprivileged_port_start": "0" } : {};
}
