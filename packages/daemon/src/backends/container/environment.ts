/** The environment of PID 1, inherited by everything it starts. */
import { type ErrorCode, SandboxError } from "@sandkasten/protocol";
import type { SandboxNetwork, SandboxProfile } from "../../ports/backend.ts";
import { STANDARD_PATH } from "../../find-program.ts";
import { HOME_PATH } from "./paths.ts";
import { PROXY_VARIABLES } from "./network.ts";

/** The kernel refuses a longer single string in an environment (MAX_ARG_STRLEN). */
const MAX_ENTRY_BYTES = 131_072;
/** Far below the kernel's total limit, which depends on the stack, and far above any practical use. */
const MAX_TOTAL_BYTES = 524_288;

const DEFAULTS = {
  PATH: STANDARD_PATH,
  LANG: "C.UTF-8",
};

const IDENTITY: Readonly<Record<SandboxProfile, Readonly<Record<string, string>>>> = {
  restricted: { HOME: HOME_PATH, USER: "sandbox", LOGNAME: "sandbox" },
  root: { HOME: "/root", USER: "root", LOGNAME: "root" },
};

type Variables = Readonly<Record<string, string>>;

/**
 * Merges, later over earlier: defaults, the image's variables, the code user, the proxy settings, the
 * caller's variables.
 *
 * SECURITY: against leaked secrets and descriptors: built from these sources only. The daemon's own
 * environment, with its keys, is not included. Guarded by build-oci-config.test.ts.
 */
export function environmentOf(
  profile: SandboxProfile,
  image: Variables,
  caller: Variables,
  network?: SandboxNetwork,
): string[] {
  // Images may have names that shells cannot use; a caller's are refused.
  check(image, "INVALID_IMAGE", /^[^=\0]+$/);
  check(caller, "INVALID_REQUEST", /^[A-Za-z_][A-Za-z0-9_]*$/);
  const merged = new Map(
    [
      DEFAULTS,
      image,
      IDENTITY[profile],
      network === "gateway" ? PROXY_VARIABLES : {},
      caller,
    ].flatMap((source) => Object.entries(source)),
  );
  const entries = [...merged].map(([name, value]) => `${name}=${value}`);
  const totalBytes = entries.reduce((sum, entry) => sum + Buffer.byteLength(entry) + 1, 0);
  if (totalBytes > MAX_TOTAL_BYTES) {
    throw new SandboxError(
      "INVALID_REQUEST",
      `the environment has ${totalBytes} bytes, but at most ${MAX_TOTAL_BYTES} are allowed; put large values into a file`,
    );
  }
  return entries;
}

function check(variables: Variables, code: ErrorCode, nameForm: RegExp): void {
  for (const [name, value] of Object.entries(variables)) {
    const fault = faultOf(name, value, nameForm);
    if (fault === undefined) continue;
    const shown = JSON.stringify(name.slice(0, 64));
    throw new SandboxError(code, `the environment variable ${shown} ${fault}`, {
      details: { variable: name.slice(0, 64) },
    });
  }
}

function faultOf(name: string, value: unknown, nameForm: RegExp): string | undefined {
  if (!nameForm.test(name)) {
    return "is not a valid name; use letters, digits and _, not starting with a digit";
  }
  if (typeof value !== "string") return "is not text; give it as a string";
  if (value.includes("\0")) return "contains a NUL byte, which environments cannot hold; remove it";
  if (Buffer.byteLength(name) + Buffer.byteLength(value) + 2 > MAX_ENTRY_BYTES) {
    return `is longer than ${MAX_ENTRY_BYTES} bytes; put its value into a file`;
  }
  return undefined;
}
