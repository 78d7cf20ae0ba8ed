/** The keys below `docker`. */
import {
  absolutePath,
  engineAddress,
  oneOf,
  networkName,
  runtimeName,
  volumeName,
} from "../kinds.ts";
import { group } from "./units.ts";

export const docker = group({
  host: engineAddress().default("unix:///var/run/docker.sock").meta({
    description: "Address of the engine: `unix:///path`, `tcp://host:port` or `ssh://user@host`",
  }),
  cert_path: absolutePath().optional().meta({
    description: "Directory with `ca.pem`, `cert.pem` and `key.pem` for an engine that uses TLS",
    unset: "no TLS",
  }),
  config_dir: absolutePath().optional().meta({
    description: "Directory of Docker's `config.json`, which has the credentials for registries",
    unset: "`~/.docker`",
  }),
  pull_policy: oneOf("never", "missing", "always").default("missing").meta({
    description: "When images are pulled for a session: `never`, only if `missing`, or `always`",
  }),
  workspace: oneOf("auto", "bind", "shared-volume", "volume", "exec").default("auto").meta({
    description:
      "Where `/workspace` is kept: a directory of this machine (`bind`), a sub-directory of one volume (`shared-volume`), a volume for each session (`volume`), or only the container (`exec`); `auto` detects what works",
  }),
  workspace_dir: absolutePath().default("/tmp/station-sandboxes").meta({
    description: "Where `bind` keeps the directories of sessions",
  }),
  shared_volume: volumeName().default("station-sandboxes").meta({
    description: "The volume of `shared-volume`",
  }),
  shared_dir: absolutePath().default("/shared-sandboxes").meta({
    description: "Where that volume is mounted in the daemon's own container",
  }),
  network: networkName().optional().meta({
    description:
      "The engine's network for sandboxes whose request asks for one, such as `bridge`; never the machine's own (`host`)",
    unset: "requests for a network are refused",
  }),
  runtime: runtimeName().optional().meta({
    description: "A runtime that the engine knows by name, such as `runsc` or `sysbox-runc`",
    unset: "the engine's default",
  }),
});
