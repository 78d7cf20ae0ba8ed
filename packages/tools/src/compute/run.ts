/** `sandbox_run`: runs a program in a fresh sandbox, which is destroyed afterwards. */
import type { ExecResult, Session } from "@sandkasten/sdk";
import { createOptions, notCreated } from "../create-options.ts";
import { installPackages } from "../packages.ts";
import type { SandboxPolicy } from "../policy.ts";
import { programOf, WORK } from "../programs.ts";
import {
  endText,
  type OutputCaps,
  runCommand,
  shapeOutput,
  type ShownOutput,
} from "../run-command.ts";
import { workspacePath } from "../sandbox-paths.ts";
import type { SandboxSettings } from "../settings/parse-settings.ts";
import { imageOfLanguage, type Language } from "../settings/runtimes.ts";
import { defineTool, type SandboxTool, type ToolCall } from "../tool.ts";
import type { SandboxToolContext, ToolLog } from "../tool-context.ts";
import { ToolError } from "../tool-error.ts";
import { activeTraceIds, describeSpan, failureName, inSpan } from "../tracing.ts";
import { type Artifacts, collectArtifacts } from "./artifacts.ts";
import { runForModel } from "./run-for-model.ts";
import { type RunInput, runInput, type RunOutput, runOutput } from "./run-schema.ts";

/** The limits of a run, combined from agent and administrator. */
interface RunLimits {
  readonly timeoutMs: number;
  readonly caps: OutputCaps;
  readonly artifactBytes: number;
  readonly artifactsCount: number;
}

export function runTool(
  settings: SandboxSettings,
  policy: SandboxPolicy,
  context: SandboxToolContext,
): SandboxTool<RunOutput> {
  const { timeoutMs } = limitsOf(settings, policy, {});
  return defineTool({
    name: "sandbox_run",
    description: `Run a ${settings.language} program in a fresh, isolated Linux sandbox. The code is written to a file in /work and run there; nothing remains afterwards, so give all files it needs in files, and name those you want back in artifacts. Returns exit_code, stdout and stderr; a failing program is a result, not an error. Timeout ${timeoutMs / 1000} s unless timeout_seconds says otherwise. ${settings.network && policy.allowNetwork ? "There is a network." : "There is no network."}`,
    input: runInput,
    output: runOutput,
    forModel: runForModel,
    onSandboxTime: context.onSandboxTime,
    run: (asked, call) => run(settings, policy, context, asked, call),
  });
}

async function run(
  settings: SandboxSettings,
  policy: SandboxPolicy,
  context: SandboxToolContext,
  asked: RunInput,
  call: ToolCall,
): Promise<RunOutput> {
  const language = asked.language ?? settings.language;
  // A language other than the agent's own needs its image, unless the agent has chosen one.
  const image =
    settings.image === imageOfLanguage(settings.language)
      ? imageOfLanguage(language)
      : settings.image;
  const program = programOf(language, asked.code, asked.args ?? []);
  const files = filesOf(program.files, givenFiles(settings, asked));
  const limits = limitsOf(settings, policy, asked);
  const create = createOptions(settings, policy, image);
  describeSpan({
    "sandbox.runtime": language,
    "sandbox.image": image,
    "sandbox.timeout_seconds": limits.timeoutMs / 1000,
  });
  const { agentScope, log } = context;
  return await logged(log, { runtime: language, image }, async () => {
    const held = await inSpan("sandbox.connect", { "sandbox.image": image }, () =>
      agentScope
        .openFresh({
          create,
          maxLifetimeSeconds: policy.maxLifetimeSeconds,
          prepare: (session) => installPackages(session, settings, policy, call),
          signal: call.signal,
        })
        .catch((error: unknown) => {
          throw notCreated(error, call.signal);
        }),
    );
    const work: Work = { language, argv: program.argv, files, limits, asked };
    try {
      return await held.use((session) => perform(session, work, call));
    } finally {
      await agentScope.end(held);
    }
  });
}

/** The work in the sandbox. */
interface Work {
  readonly language: Language;
  readonly argv: readonly string[];
  readonly files: ReadonlyMap<string, string>;
  readonly limits: RunLimits;
  readonly asked: RunInput;
}

async function perform(session: Session, work: Work, call: ToolCall): Promise<RunOutput> {
  const { language, argv, files, limits } = work;
  const { env, stdin, artifacts: patterns = [] } = work.asked;
  const { signal } = call;
  await inSpan("sandbox.prepare_files", { "sandbox.files_count": files.size }, () =>
    writeFiles(session, files, signal),
  );
  const options = {
    cwd: WORK,
    env: { PYTHONUNBUFFERED: "1", ...env },
    timeoutMs: limits.timeoutMs,
    runtime: language,
    ...(stdin !== undefined && { stdin }),
  };
  const result = await runCommand(session, argv, options, limits.caps, call);
  const shown = await inSpan("sandbox.collect_outputs", {}, () =>
    Promise.resolve(shapeOutput(result, limits.caps)),
  );
  const caps = { maxBytes: limits.artifactBytes, maxCount: limits.artifactsCount };
  const artifacts = await inSpan("sandbox.collect_artifacts", {}, async (span) => {
    const found =
      patterns.length === 0 ? undefined : await collectArtifacts(session, patterns, caps, signal);
    span.setAttribute("sandbox.artifacts_count", found?.artifacts.length ?? 0);
    return found;
  });
  return outputOf(language, session, result, shown, limits, artifacts);
}

/** The two lines about a run, with the ids of its span. */
async function logged(
  log: ToolLog | undefined,
  about: { readonly runtime: string; readonly image: string },
  work: () => Promise<RunOutput>,
): Promise<RunOutput> {
  if (log === undefined) return await work();
  const fields = { ...about, ...activeTraceIds() };
  log.info({ event: "sandbox_run_started", ...fields }, "sandbox_run_started");
  const startedMs = performance.now();
  const finished = (end: Readonly<Record<string, unknown>>): void =>
    log.info(
      {
        event: "sandbox_run_finished",
        ...fields,
        duration_ms: Math.round(performance.now() - startedMs),
        ...end,
      },
      "sandbox_run_finished",
    );
  try {
    const output = await work();
    const { ok, exit_code, end_reason, stdout_bytes, stderr_bytes } = output;
    finished({ ok, exit_code, end_reason, stdout_bytes, stderr_bytes });
    return output;
  } catch (error) {
    finished({ ok: false, exit_code: null, error: failureName(error) });
    throw error;
  }
}

function limitsOf(
  settings: SandboxSettings,
  policy: SandboxPolicy,
  { timeoutMs }: { readonly timeoutMs?: number | undefined },
): RunLimits {
  const seconds = settings.timeoutSeconds ?? policy.defaultTimeoutSeconds;
  const capped = (asked: number | undefined, most: number): number => Math.min(asked ?? most, most);
  return {
    timeoutMs: Math.min(timeoutMs ?? seconds * 1000, policy.maxTimeoutSeconds * 1000),
    caps: {
      stdoutBytes: capped(settings.maxStdoutBytes, policy.maxStdoutBytes),
      stderrBytes: capped(settings.maxStderrBytes, policy.maxStderrBytes),
    },
    artifactBytes: capped(settings.maxArtifactBytes, policy.maxArtifactBytes),
    artifactsCount: capped(settings.maxArtifactsCount, policy.maxArtifactsCount),
  };
}

/** The files of the call, which the agent's limits may restrict. */
function givenFiles(
  { limits: { maxFiles, maxFileSizeBytes } }: SandboxSettings,
  { files = {} }: RunInput,
): Readonly<Record<string, string>> {
  const sizes = Object.entries(files).map(
    ([name, text]) => [name, Buffer.byteLength(text)] as const,
  );
  if (sizes.length > maxFiles)
    throw new ToolError(
      "LIMIT_EXCEEDED",
      `\`files\` has ${sizes.length} entries, and ${maxFiles} are allowed here (limits.max_files).`,
    );
  const [large] = sizes.filter(([, bytes]) => bytes > maxFileSizeBytes);
  if (large !== undefined)
    throw new ToolError(
      "LIMIT_EXCEEDED",
      `\`files\`: ${JSON.stringify(large[0].slice(0, 256))} has ${large[1]} bytes, and files may have ${maxFileSizeBytes} here (limits.max_file_size_bytes).`,
    );
  return files;
}

/** The program's own files and those of the call, by path relative to the working directory. */
function filesOf(
  own: ReadonlyMap<string, string>,
  given: Readonly<Record<string, string>>,
): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  for (const [name, content] of Object.entries(given)) {
    const path = workspacePath(name);
    if (own.has(path) || files.has(path))
      throw new ToolError(
        "INVALID_INPUT",
        `\`files\`: ${path} is ${own.has(path) ? "where the program itself is written" : "given twice"}; use another name.`,
      );
    files.set(path, content);
  }
  return new Map([...files, ...own]);
}

async function writeFiles(
  session: Session,
  files: ReadonlyMap<string, string>,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const [path, content] of files) await session.files.write(path, content, { signal });
}

function outputOf(
  language: string,
  session: Session,
  result: ExecResult,
  { stdout, stderr, truncated }: ShownOutput,
  limits: RunLimits,
  artifacts: Artifacts | undefined,
): RunOutput {
  const { memoryMb, cpuMillicores, pids, diskMb } = session.limits;
  const error = endText(result, session.limits);
  return {
    ok: result.exitCode === 0 && result.endReason === "exited",
    runtime: language,
    exit_code: result.exitCode,
    end_reason: result.endReason ?? "unknown",
    duration_ms: result.durationMs,
    stdout,
    stderr,
    stdout_bytes: result.stdoutBytes,
    stderr_bytes: result.stderrBytes,
    truncated,
    timed_out: result.timedOut,
    ...(error !== undefined && { error }),
    ...(artifacts !== undefined && { artifacts: [...artifacts.artifacts] }),
    ...(artifacts !== undefined &&
      artifacts.omitted.length > 0 && { artifacts_omitted: [...artifacts.omitted] }),
    ...(artifacts !== undefined &&
      artifacts.unmatched.length > 0 && { artifacts_unmatched: [...artifacts.unmatched] }),
    limits: {
      timeout_seconds: (result.timeoutMs ?? limits.timeoutMs) / 1000,
      max_stdout_bytes: limits.caps.stdoutBytes,
      max_stderr_bytes: limits.caps.stderrBytes,
      max_artifact_bytes: limits.artifactBytes,
      max_artifacts_count: limits.artifactsCount,
      cpu_millicores: cpuMillicores,
      memory_mb: memoryMb,
      pids,
      workspace_mb: diskMb,
      network: session.network !== "none",
    },
  };
}
