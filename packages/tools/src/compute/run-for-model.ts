/** A run's result for a model: artifacts as text if they are text, and short. */
import type { RunOutput } from "./run-schema.ts";

/** How much of an artifact a model gets. */
const MAX_SHOWN_BYTES = 8192;

type Artifact = NonNullable<RunOutput["artifacts"]>[number];

/** The result itself has every artifact in full; the text says what is left out here. */
export function runForModel(result: RunOutput): unknown {
  const { exit_code, end_reason, stdout, stderr, duration_ms, error, artifacts } = result;
  const { truncated, stdout_bytes, stderr_bytes, artifacts_omitted, artifacts_unmatched } = result;
  return {
    exit_code,
    stdout,
    ...(stderr !== "" && { stderr }),
    duration_ms,
    ...(end_reason !== "exited" && { end_reason }),
    ...(error !== undefined && { error }),
    ...(truncated && { truncated, stdout_bytes, stderr_bytes }),
    ...(artifacts !== undefined && { artifacts: artifacts.map(artifactForModel) }),
    ...(artifacts_omitted !== undefined && { artifacts_omitted }),
    ...(artifacts_unmatched !== undefined && { artifacts_unmatched }),
  };
}

function artifactForModel({ path, size_bytes, content_base64 }: Artifact): object {
  const text = textOf(Buffer.from(content_base64, "base64"));
  if (text === undefined)
    return { path, size_bytes, note: "Returned to the caller; not shown, because it is not text." };
  if (size_bytes > MAX_SHOWN_BYTES)
    return {
      path,
      size_bytes,
      note: `Returned to the caller; not shown, because it has more than ${MAX_SHOWN_BYTES} bytes. Print what you need of it.`,
    };
  return { path, size_bytes, content: text };
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
