/** Merges defaults, file, environment and flags once, and validates the result. */
import { dirname, isAbsolute, join, resolve } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { deepFreeze } from "../deep-freeze.ts";
import { readConfigFile } from "./config-file.ts";
import type { ConfigFile } from "./config-file.ts";
import { shapeConfig } from "./config.ts";
import type { Config, ShownSetting } from "./config.ts";
import { configKeys } from "./keys.ts";
import type { ConfigKey } from "./keys.ts";
import { judge } from "./rules.ts";
import { configSchema } from "./schema.ts";
import type { ConfigValues } from "./schema.ts";
import { problemsOf } from "./settings.ts";
import type { Layer, Setting, Source } from "./settings.ts";
import { environmentLayer, flagLayer } from "./text-settings.ts";
import type { Environment } from "./text-settings.ts";
import { telemetryOf } from "./telemetry-settings.ts";
import { yamlLayer } from "./yaml-settings.ts";

export interface LoadConfigOptions {
  readonly env: Environment;
  /** Keyed by key names with dots or dashes, as in `defaults.mem-limit-mb`. */
  readonly flags?: Readonly<Record<string, string>>;
  /** Values of `--set`, with the same names. */
  readonly set?: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** A file that must exist, instead of the one in a default location. */
  readonly file?: string;
  readonly home: string;
  readonly isRoot: boolean;
}

/** Rejects with INVALID_REQUEST, whose message and `details.problems` list everything that is wrong. */
export async function loadConfig(options: LoadConfigOptions): Promise<Config> {
  const keys = configKeys();
  const read = await readConfigFile(options);
  const file = typeof read === "string" ? undefined : read;
  const layers: readonly Layer[] = [
    fileLayer(read, keys),
    environmentLayer(options.env, keys),
    flagLayer(options.flags ?? {}, options.set ?? {}, keys),
  ];
  const checked = layers.flatMap(({ settings }) =>
    settings.map((setting) => ({ setting, problems: problemsOf(setting) })),
  );
  const sound = checked.filter(({ problems }) => problems.length === 0);
  const faulty = checked.filter(({ problems }) => problems.length > 0);
  const settings = new Map(sound.map(({ setting }) => [setting.key.name, setting]));
  const values = configSchema.parse(nested([...settings.values()]));
  const sourceOf = (key: string): Source =>
    settings.get(key)?.source ?? { kind: "default", name: "default" };
  const isFaulty = (key: string): boolean =>
    layers.some(({ unreadable }) => unreadable) ||
    faulty.some(({ setting }) => setting.key.path[0] === key);
  const verdict = judge(values, sourceOf, isFaulty);
  refuse([...layers, ...faulty, verdict].flatMap(({ problems }) => problems));

  const dataDir = dataDirectory(values.data_dir, sourceOf("data_dir"), file, options);
  const { telemetry, warnings } = telemetryOf(values.telemetry, options.env);
  return deepFreeze({
    ...shapeConfig(values, dataDir, options.home),
    telemetry,
    ...(file !== undefined && { file: file.path }),
    warnings: [
      ...layers.flatMap(({ warnings }) => warnings),
      ...permissionWarnings(file, layers[0]?.settings ?? []),
      ...verdict.warnings,
      ...warnings,
    ],
    settings: keys.map((key) => shown(key, { ...values, data_dir: dataDir }, sourceOf(key.name))),
  });
}

function fileLayer(file: ConfigFile | string | undefined, keys: readonly ConfigKey[]): Layer {
  if (typeof file === "string")
    return { settings: [], problems: [file], warnings: [], unreadable: true };
  if (file === undefined) return { settings: [], problems: [], warnings: [] };
  return yamlLayer(file.path, file.text, keys);
}

function refuse(problems: readonly string[]): void {
  if (problems.length === 0) return;
  const [first = ""] = problems;
  const message =
    problems.length === 1
      ? `The configuration cannot be used: ${first}`
      : `The configuration has ${problems.length} problems:\n${problems.map((problem) => `- ${problem}`).join("\n")}`;
  throw new SandboxError("INVALID_REQUEST", message, { details: { problems } });
}

/** Keys with dots in their names as nested mappings. */
function nested(settings: readonly Setting[]): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const { key, value } of settings) {
    let group = root;
    for (const name of key.path.slice(0, -1)) {
      group = (group[name] ??= {}) as Record<string, unknown>;
    }
    group[key.path.at(-1) ?? ""] = value;
  }
  return root;
}

/** A relative path in a file is relative to the file; one in a variable or flag, to the working directory. */
function dataDirectory(
  given: string | undefined,
  source: Source,
  file: ConfigFile | undefined,
  { env, cwd, home, isRoot }: LoadConfigOptions,
): string {
  if (given !== undefined) {
    const base = source.kind === "file" && file !== undefined ? dirname(file.path) : cwd;
    return resolve(base, given.replace(/^~(?=\/|$)/, home));
  }
  if (isRoot) return "/var/lib/sandkasten";
  const xdg = env["XDG_DATA_HOME"] ?? "";
  return join(isAbsolute(xdg) ? xdg : join(home, ".local/share"), "sandkasten");
}

function permissionWarnings(file: ConfigFile | undefined, settings: readonly Setting[]): string[] {
  const holdsKeys = settings.some(({ key }) => key.secret);
  return file?.readableByOthers === true && holdsKeys
    ? [
        `${file.path} contains keys and other users can read it (mode ${file.mode}); run chmod 600 on it`,
      ]
    : [];
}

function shown(key: ConfigKey, values: ConfigValues, source: Source): ShownSetting {
  let value: unknown = values;
  for (const name of key.path) value = (value as Record<string, unknown>)[name];
  return { key: key.name, value: key.secret ? redacted(value) : value, source };
}

/** For a list of keys, names and quotas stay visible. */
function redacted(value: unknown): unknown {
  if (value === undefined) return undefined;
  return Array.isArray(value)
    ? value.map((entry: Record<string, unknown>) => ({ ...entry, key: "***" }))
    : "***";
}
