/** What a sandbox needs if its network leads through the daemon: the proxy settings, and low ports. */
import type { SandboxNetwork } from "../../ports/backend.ts";

/** The runner's proxy. */
const PROXY = "http://127.0.0.1:3128";
const LOCAL = "localhost,127.0.0.1,::1";

/**
 * As programs expect them: some in capitals, some not. Node's fetch only uses them when told to.
 * `all_proxy` also names HTTP: Python clients fail to start if it names SOCKS and the library for
 * it is missing.
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
 * Lets the runner listen on port 53, and for other hosts on 80 and 443, without a capability.
 *
 * SECURITY: this applies only in the sandbox's network namespace, where low ports are not special: only
 * the sandbox itself sees what code listens on there.
 */
export function networkSysctls(network: SandboxNetwork | undefined): Record<string, string> {
  return network === "gateway" ? { "net.ipv4.ip_unprivileged_port_start": "0" } : {};
}
