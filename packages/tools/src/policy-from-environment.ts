/** Reads the administrator's policy from environment variables. */
import { DEFAULT_POLICY, type SandboxPolicy } from "./policy.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The names of one variable, in order of precedence. */
const named = (name: string): readonly string[] => [
  `SANDKASTEN_AGENTS_SANDBOX_${name}`,
  `STATION_SANDBOX_${name}`,
  `STN_SANDBOX_${name}`,
];

/** Every variable of the policy, with its current name before its older ones. */
export const POLICY_VARIABLES = {
  enabled: named("ENABLED"),
  codeModeEnabled: named("CODE_MODE_ENABLED"),
  allowNetwork: [...named("ALLOW_NETWORK"), ...named("ALLOW_NETWORK_DEFAULT")],
  allowedImages: named("ALLOWED_IMAGES"),
  defaultTimeoutSeconds: named("DEFAULT_TIMEOUT_SECONDS"),
  maxTimeoutSeconds: named("MAX_TIMEOUT_SECONDS"),
  maxStdoutBytes: named("MAX_STDOUT_BYTES"),
  maxStderrBytes: named("MAX_STDERR_BYTES"),
  maxArtifactBytes: named("MAX_ARTIFACT_BYTES"),
  maxArtifactsCount: named("MAX_ARTIFACTS_COUNT"),
  idleTimeoutSeconds: [...named("SESSION_IDLE_TIMEOUT"), "SANDBOX_SESSION_IDLE_TIMEOUT"],
  maxLifetimeSeconds: [...named("SESSION_MAX_LIFETIME"), "SANDBOX_SESSION_MAX_LIFETIME"],
  traceOutputBytes: named("TRACE_OUTPUT_BYTES"),
} as const satisfies Record<keyof SandboxPolicy, readonly string[]>;

/** Throws one error that names every invalid variable. */
export function policyFromEnvironment(env: Environment): SandboxPolicy {
  const problems: string[] = [];
  const read = <Name extends keyof SandboxPolicy>(
    name: Name,
    parse: (text: string) => SandboxPolicy[Name] | undefined,
    expected: string,
  ): SandboxPolicy[Name] => {
    const variable = POLICY_VARIABLES[name].find((one) => (env[one] ?? "").trim() !== "");
    if (variable === undefined) return DEFAULT_POLICY[name];
    const text = (env[variable] ?? "").trim();
    const value = parse(text);
    if (value === undefined) problems.push(`${variable} must be ${expected}, not "${text}"`);
    return value ?? DEFAULT_POLICY[name];
  };
  const policy: SandboxPolicy = {
    enabled: read("enabled", flag, FLAG),
    codeModeEnabled: read("codeModeEnabled", flag, FLAG),
    allowNetwork: read("allowNetwork", flag, FLAG),
    allowedImages: read("allowedImages", list, "a list with commas"),
    defaultTimeoutSeconds: read("defaultTimeoutSeconds", number(1, 3600), "1 to 3600"),
    maxTimeoutSeconds: read("maxTimeoutSeconds", number(1, 86_400), "1 to 86400"),
    maxStdoutBytes: read("maxStdoutBytes", number(1, MAX_OUTPUT), `1 to ${MAX_OUTPUT}`),
    maxStderrBytes: read("maxStderrBytes", number(1, MAX_OUTPUT), `1 to ${MAX_OUTPUT}`),
    maxArtifactBytes: read("maxArtifactBytes", number(1, MAX_ARTIFACT), `1 to ${MAX_ARTIFACT}`),
    maxArtifactsCount: read("maxArtifactsCount", number(0, 10_000), "0 to 10000"),
    idleTimeoutSeconds: read("idleTimeoutSeconds", duration(86_400), DURATION),
    maxLifetimeSeconds: read("maxLifetimeSeconds", duration(31_536_000), DURATION),
    traceOutputBytes: read("traceOutputBytes", number(0, 8192), "0 to 8192"),
  };
  if (problems.length > 0) throw new Error(`${problems.join("; ")}.`);
  return Object.freeze(policy);
}

const FLAG = "true or false";
const DURATION = "a duration such as 30m, or a number of seconds";
/** Both streams at this limit fill one response of the daemon. */
const MAX_OUTPUT = 8_388_608;
const MAX_ARTIFACT = 268_435_456;

const UNITS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600 };

function flag(text: string): boolean | undefined {
  if (/^(?:true|yes|on|1)$/i.test(text)) return true;
  return /^(?:false|no|off|0)$/i.test(text) ? false : undefined;
}

function list(text: string): readonly string[] {
  return text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

function number(least: number, most: number): (text: string) => number | undefined {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    return value >= least && value <= most ? value : undefined;
  };
}

/** `30m` and `1h30m`, as Go writes durations, or plain seconds. */
function duration(most: number): (text: string) => number | undefined {
  return (text) => {
    const inRange = number(1, most);
    if (/^\d+$/.test(text)) return inRange(text);
    if (!/^(?:\d+(?:\.\d+)?(?:ms|s|m|h))+$/.test(text)) return undefined;
    const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
    const seconds = parts.reduce((sum, [, count, unit = ""]) => {
      return sum + Number(count) * (UNITS[unit] ?? Number.NaN);
    }, 0);
    return inRange(String(Math.round(seconds)));
  };
}
