/** Parses a `sandbox:` block, in any of its forms, into what the tools need to know. */
import { describeIssue, keysAt } from "../issues.ts";
import { nearestName } from "../nearest-name.ts";
import {
  imageOfLanguage,
  imageToAskFor,
  type Language,
  languageOf,
  likelyLanguage,
  RUNTIME_NAMES,
} from "./runtimes.ts";
import { type SettingsObject, settingsObjectSchema } from "./schema.ts";
import { SettingsError } from "./settings-error.ts";

const DEFAULT_MAX_FILE_BYTES = 10_485_760;
const DEFAULT_MAX_FILES = 100;

/**
 * The content of an agent's `sandbox:` block. The administrator's policy decides about absent keys.
 */
export interface SandboxSettings {
  readonly mode: "compute" | "code";
  /** The language of programs. */
  readonly language: Language;
  /** The image to request from the daemon. */
  readonly image: string;
  /** Whether the block names a runtime or an image instead of using the default. */
  readonly isImageGiven: boolean;
  /** `default`, `isolated`, or the name of a further session. */
  readonly session: string;
  readonly network: boolean;
  readonly profile: "restricted" | "root" | undefined;
  readonly pipPackages: readonly string[];
  readonly npmPackages: readonly string[];
  /** The timeout of a command or run that does not set its own. */
  readonly timeoutSeconds: number | undefined;
  readonly idleTimeoutSeconds: number | undefined;
  readonly maxStdoutBytes: number | undefined;
  readonly maxStderrBytes: number | undefined;
  readonly maxArtifactBytes: number | undefined;
  readonly maxArtifactsCount: number | undefined;
  readonly limits: SandboxLimits;
}

/** Upper bounds of a sandbox. */
export interface SandboxLimits {
  readonly cpuMillicores: number | undefined;
  readonly memoryMb: number | undefined;
  readonly pids: number | undefined;
  readonly workspaceMb: number | undefined;
  readonly maxFileSizeBytes: number;
  readonly maxFiles: number;
}

/** Throws `SettingsError`, which says where the mistake is and what to write instead. */
export function parseSandboxSettings(value: unknown): SandboxSettings {
  return settingsOf(typeof value === "string" ? { runtime: value } : checkedObject(value));
}

function checkedObject(value: unknown): SettingsObject {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new SettingsError(
      "`sandbox` must be a runtime such as `python`, or an object with `runtime`, `mode` and other keys",
    );
  const result = settingsObjectSchema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  if (issue === undefined) throw new SettingsError("`sandbox` is not valid");
  const path = issue.path.map((part) => (typeof part === "symbol" ? String(part) : part));
  const unknown = issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [];
  throw new SettingsError(describeIssue(issue, keysAt(settingsObjectSchema, path)), [
    ...path,
    ...unknown,
  ]);
}

function settingsOf(given: SettingsObject): SandboxSettings {
  const { mode = "compute", limits = {}, runtime } = given;
  for (const key of ["session", "idle_timeout_seconds"] as const)
    if (mode === "compute" && given[key] !== undefined)
      throw new SettingsError(
        `\`${key}\` needs \`mode: code\`; in compute mode every run has a fresh sandbox`,
        [key],
      );
  const isCode = mode === "code";
  const { language, image } = runtimeOf(runtime ?? (isCode ? "linux" : "python"), given.image);
  return {
    mode,
    language,
    image: imageToAskFor(image),
    isImageGiven: runtime !== undefined || given.image !== undefined,
    session: sessionOf(given.session),
    network: networkOf(given),
    profile: given.profile,
    pipPackages: given.pip_packages ?? [],
    npmPackages: given.npm_packages ?? [],
    timeoutSeconds:
      same(given, "exec_timeout_seconds", "timeout_seconds") ??
      (isCode ? undefined : limits.timeout_seconds),
    idleTimeoutSeconds: isCode ? idleTimeoutOf(given) : undefined,
    maxStdoutBytes: given.max_stdout_bytes,
    maxStderrBytes: given.max_stderr_bytes,
    maxArtifactBytes: given.max_artifact_bytes,
    maxArtifactsCount: given.max_artifacts_count,
    limits: {
      cpuMillicores: limits.cpu_millicores,
      memoryMb: limits.memory_mb,
      pids: limits.pids,
      workspaceMb: limits.workspace_mb,
      maxFileSizeBytes: limits.max_file_size_bytes ?? (isCode ? DEFAULT_MAX_FILE_BYTES : Infinity),
      maxFiles: limits.max_files ?? (isCode ? DEFAULT_MAX_FILES : Infinity),
    },
  };
}

/** An unknown runtime is an image (X-19), unless it looks like a typo. */
function runtimeOf(
  runtime: string,
  image: string | undefined,
): { readonly language: Language; readonly image: string } {
  const language = languageOf(runtime);
  if (language !== undefined) return { language, image: image ?? imageOfLanguage(language) };
  const nearest = nearestName(runtime, RUNTIME_NAMES);
  if (!/[:/]/.test(runtime) && nearest !== undefined && nearest.distance <= 2)
    throw new SettingsError(
      `\`runtime\`: \`${runtime}\` is not a runtime; did you mean \`${nearest.name}\`? For an image of this name write \`${runtime}:latest\``,
      ["runtime"],
    );
  return { language: likelyLanguage(runtime), image: image ?? runtime };
}

function sessionOf(session = "default"): string {
  if (session === "workflow") return "default";
  return session === "agent" ? "isolated" : session;
}

function networkOf(given: SettingsObject): boolean {
  const { network, allow_network: allowed, network_mode: mode } = given;
  const asked = new Map<string, boolean>();
  if (typeof network === "boolean") asked.set("network", network);
  else if (network?.enabled !== undefined) asked.set("network.enabled", network.enabled);
  if (allowed !== undefined) asked.set("allow_network", allowed);
  if (mode !== undefined) asked.set("network_mode", mode !== "none");
  if (new Set(asked.values()).size > 1)
    throw new SettingsError(
      `${[...asked.keys()].map((name) => `\`${name}\``).join(" and ")} contradict each other; give one`,
      [[...asked.keys()].at(-1)?.split(".")[0] ?? ""],
    );
  return [...asked.values()].includes(true);
}

function idleTimeoutOf(given: SettingsObject): number | undefined {
  const { idle_timeout_seconds: idle } = given;
  const ofLimits = given.limits?.timeout_seconds;
  if (idle !== undefined && ofLimits !== undefined && idle !== ofLimits)
    throw new SettingsError(
      "`idle_timeout_seconds` and `limits.timeout_seconds` are the same in code mode and must not differ; give one",
      ["idle_timeout_seconds"],
    );
  return idle ?? ofLimits;
}

function same(
  given: SettingsObject,
  one: "exec_timeout_seconds",
  other: "timeout_seconds",
): number | undefined {
  const [a, b] = [given[one], given[other]];
  if (a !== undefined && b !== undefined && a !== b)
    throw new SettingsError(
      `\`${one}\` and \`${other}\` are the same and must not differ; give one`,
      [one],
    );
  return a ?? b;
}
