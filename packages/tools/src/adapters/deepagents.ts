/** For Deep Agents (`deepagents`): a session as its sandbox backend. */
import { SandboxError, type Session } from "@sandkasten/sdk";
import {
  BaseSandbox,
  type ExecuteResponse,
  type FileDownloadResponse,
  type FileUploadResponse,
} from "deepagents";
import { NOT_RUN, refusalOf, runFresh } from "./fresh-command.ts";

type FileProblem = NonNullable<FileUploadResponse["error"]>;

/**
 * A `SandboxBackendProtocolV2` for `createDeepAgent`. Deep Agents does everything else with
 * commands in the sandbox. The caller keeps the session and must destroy it.
 */
export class DeepAgentsSandbox extends BaseSandbox {
  readonly id: string;
  readonly #session: Session;

  constructor(session: Session) {
    super();
    this.id = session.id;
    this.#session = session;
  }

  /**
   * Runs a command in a fresh shell in `/workspace`. A timed-out command has the exit code 124, and
   * a refused one 126, because an error would end the agent's whole run.
   */
  async execute(
    command: string,
    { timeout }: { readonly timeout?: number } = {},
  ): Promise<ExecuteResponse> {
    const timeoutMs = timeout === undefined ? undefined : timeout * 1000;
    try {
      const { output, exitCode, truncated } = await runFresh(this.#session, command, { timeoutMs });
      return { output, exitCode, truncated };
    } catch (error) {
      return { output: refusalOf(error), exitCode: NOT_RUN, truncated: false };
    }
  }

  async uploadFiles(files: [string, Uint8Array][]): Promise<FileUploadResponse[]> {
    return await Promise.all(
      files.map(async ([path, content]) => {
        try {
          await this.#session.files.write(path, content);
          return { path, error: null };
        } catch (error) {
          return { path, error: problemOf(error) };
        }
      }),
    );
  }

  async downloadFiles(paths: string[]): Promise<FileDownloadResponse[]> {
    return await Promise.all(
      paths.map(async (path) => {
        try {
          return { path, content: await this.#session.files.read(path), error: null };
        } catch (error) {
          return { path, content: null, error: problemOf(error) };
        }
      }),
    );
  }
}

const problems: Readonly<Record<string, FileProblem>> = {
  FILE_NOT_FOUND: "file_not_found",
  NOT_A_FILE: "is_directory",
  NOT_A_DIRECTORY: "invalid_path",
  INVALID_REQUEST: "invalid_path",
  PERMISSION_DENIED: "permission_denied",
};

/** The failures that Deep Agents knows. All others do not concern a single file. */
function problemOf(error: unknown): FileProblem {
  const problem = error instanceof SandboxError ? problems[error.code] : undefined;
  if (problem === undefined) throw error;
  return problem;
}
