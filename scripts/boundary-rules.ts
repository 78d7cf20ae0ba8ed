/** Which part of the code may import which, in the terms of dependency-cruiser. */
import type { IForbiddenRuleType } from "dependency-cruiser";

/** Tests, and what stands beside them in a folder `testing/`, may reach for whatever they test. */
const tests = "(\\.test\\.ts$|/testing/)";
const packages = (...names: string[]): string => `^packages/(${names.join("|")})/`;
const core = (...names: string[]): string => `^(node:)?(${names.join("|")})(/|$)`;
const npm = (...names: string[]): string => `node_modules/(${names.join("|")})(/|$)`;

const network = ["http", "https", "http2", "net", "tls", "dgram", "dns"];

export const boundaryRules: IForbiddenRuleType[] = [
  {
    name: "no-circle",
    comment: "Modules that import each other in a circle cannot be understood one at a time.",
    severity: "error",
    from: {},
    to: { circular: true },
  },
  {
    name: "no-unknown-import",
    comment: "An import that cannot be resolved cannot be judged either.",
    severity: "error",
    from: {},
    to: { couldNotResolve: true },
  },
  {
    name: "protocol-stands-alone",
    comment: "Everything depends on the protocol; it depends on nothing of ours.",
    severity: "error",
    from: { path: "^packages/protocol/src/", pathNot: tests },
    to: { path: "^(packages|tests|bench|scripts)/", pathNot: packages("protocol") },
  },
  {
    name: "protocol-does-no-io",
    comment: "The protocol describes; it does not read, dial or start anything.",
    severity: "error",
    from: { path: "^packages/protocol/src/", pathNot: tests },
    to: { path: core("fs", "child_process", "sqlite", "worker_threads", ...network) },
  },
  {
    name: "ports-speak-protocol-only",
    comment: "A port that names a type of one adapter's library fits that adapter only.",
    severity: "error",
    from: { path: "^packages/daemon/src/ports/", pathNot: tests },
    to: { pathNot: ["^packages/daemon/src/ports/", packages("protocol")] },
  },
  {
    name: "sessions-know-ports-only",
    comment: "The rules of sessions must not know what serves, stores or runs them.",
    severity: "error",
    from: { path: "^packages/daemon/src/sessions/", pathNot: tests },
    to: {
      path: [
        "^packages/daemon/src/(http|backends|images|store)/",
        "^packages/daemon/src/compose\\.ts$",
        core("child_process", "cluster", "worker_threads", "sqlite", ...network),
        npm(
          "fastify",
          "@fastify",
          "dockerode",
          "kysely",
          "better-sqlite3",
          "execa",
          "undici",
          "ws",
        ),
      ],
    },
  },
  {
    name: "backends-do-not-look-up",
    comment: "A backend is called by sessions and never calls them, nor knows of HTTP routes.",
    severity: "error",
    from: { path: "^packages/daemon/src/backends/", pathNot: tests },
    to: { path: "^packages/daemon/src/(http|sessions)/" },
  },
  {
    name: "only-compose-picks-backends",
    comment: "Whoever else names a concrete backend is bound to it.",
    severity: "error",
    from: {
      path: "^packages/",
      pathNot: [tests, "^packages/daemon/src/(backends/|compose\\.ts$)"],
    },
    to: { path: "^packages/daemon/src/backends/" },
  },
  {
    name: "daemon-and-clients-meet-over-http",
    comment: "Clients talk to the daemon, they do not contain it; only the CLI starts it.",
    severity: "error",
    from: { path: packages("sdk", "tools", "agents", "dashboard"), pathNot: tests },
    to: { path: packages("daemon") },
  },
  {
    name: "daemon-contains-no-client",
    comment: "The daemon serves its clients without knowing them.",
    severity: "error",
    from: { path: packages("daemon"), pathNot: tests },
    to: { path: packages("sdk", "tools", "agents", "cli", "dashboard") },
  },
  {
    name: "testkit-is-for-tests",
    comment: "What ships must not need what only tests need.",
    severity: "error",
    from: { path: "^packages/", pathNot: [tests, packages("testkit")] },
    to: { path: ["/testing/", packages("testkit"), npm("vitest", "fast-check")] },
  },
];
