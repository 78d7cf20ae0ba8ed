/** Reads settings from environment variables and flags. */
import { VARIABLE_PREFIX } from "./keys.ts";
import type { ConfigKey } from "./keys.ts";
import { isLegacyVariable, legacySettings } from "./legacy-variables.ts";
import { byWholeOrLastPart, nearestName } from "./nearest-name.ts";
import { olderNameWarning } from "./older-keys.ts";
import type { Layer, Setting } from "./settings.ts";
import { valueFromText } from "./values-from-text.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** The variable that names the file. */
export const FILE_VARIABLE = "SANDKASTEN_CONFIG";

/** Variables with our prefix that are not keys: those of clients, of the agent service and of tests. */
const OTHER_VARIABLES = new RegExp(
  `^(?:${FILE_VARIABLE}|SANDKASTEN_URL|SANDKASTEN_AGENTS_.*|SANDKASTEN_TEST_.*)$`,
);

/**
 * Kubernetes announces a service named `sandkasten` to every pod in variables with our prefix. A
 * plain number in SANDKASTEN_PORT was set by a person and is not one of them.
 */
const SERVICE_VARIABLES =
  /_(?:SERVICE_(?:HOST|PORT)(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$/;
const SERVICE_ADDRESS = /^(?:tcp|udp|sctp):\/\//;

/** An empty variable counts as unset, as in `SANDKASTEN_API_KEY=`. */
export function environmentLayer(env: Environment, keys: readonly ConfigKey[]): Layer {
  const settings: Setting[] = [];
  const problems: string[] = [];
  const warnings: string[] = [];
  for (const [name, written = ""] of Object.entries(env)) {
    if (!name.startsWith(VARIABLE_PREFIX) || written === "") continue;
    const key = keys.find(({ variable }) => variable === name);
    if (key !== undefined) {
      const value = valueFromText(key, written);
      settings.push({ key, value, written, source: { kind: "env", name } });
      continue;
    }
    const older = olderNameWarning(name);
    if (older !== undefined) warnings.push(older);
    else if (!isOthers(name, written) && !isLegacyVariable(name)) {
      const known = keys.map(({ path, variable }) => ({ path, shown: variable }));
      const nearest = nearestName(name.slice(VARIABLE_PREFIX.length), byWholeOrLastPart(known));
      problems.push(
        `${name} is not a variable of the daemon; the nearest known name is ${nearest}`,
      );
    }
  }
  const isSet = (key: ConfigKey): boolean => settings.some((setting) => setting.key === key);
  const legacy = legacySettings(env, keys, isSet);
  return {
    settings: [...settings, ...legacy.settings],
    problems,
    warnings: [...warnings, ...legacy.warnings],
  };
}

function isOthers(name: string, written: string): boolean {
  return (
    OTHER_VARIABLES.test(name) ||
    SERVICE_VARIABLES.test(name) ||
    (name.endsWith("_PORT") && SERVICE_ADDRESS.test(written))
  );
}

/**
 * `defaults.mem-limit-mb`, `defaults-mem-limit-mb` and `defaults.mem_limit_mb` are the same flag.
 * Those in `set` were written as `--set defaults.mem_limit_mb=…`.
 */
export function flagLayer(
  flags: Readonly<Record<string, string>>,
  set: Readonly<Record<string, string>>,
  keys: readonly ConfigKey[],
): Layer {
  const settings: Setting[] = [];
  const problems: string[] = [];
  const given = [
    ...Object.entries(flags).map(([name, written]) => ({ name, written, way: "--" })),
    ...Object.entries(set).map(([name, written]) => ({ name, written, way: "--set " })),
  ];
  for (const { name, written, way } of given) {
    const key = keys.find(({ path }) => path.join("_") === name.replace(/[.-]/g, "_"));
    const flag = `${way}${name}`;
    if (key === undefined) {
      const known = keys.map((one) => ({
        path: one.path,
        shown: way === "--" ? one.flag : `${way}${one.name}`,
      }));
      const nearest = nearestName(name, byWholeOrLastPart(known));
      problems.push(`${flag} is not known; the nearest known flag is ${nearest}`);
    } else if (written === "") {
      problems.push(`${flag} is empty; give it a value or leave it out`);
    } else if (settings.some((setting) => setting.key === key)) {
      problems.push(`${flag} sets ${key.name}, which another flag also sets; keep one of them`);
    } else {
      const source = { kind: "flag", name: flag } as const;
      settings.push({ key, value: valueFromText(key, written), written, source });
    }
  }
  return { settings, problems, warnings: [] };
}
