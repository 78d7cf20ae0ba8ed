/** The only valid form of sandbox and workspace ids. */
import { SandboxError } from "@sandkasten/protocol";

/** A sandbox has the id of its session; `sbx_` marks one without a session. */
const FORMS = {
  sandbox: /^(?:ses|sbx)_[a-z0-9]{2,48}$/u,
  workspace: /^wsp_[a-z0-9]{2,48}$/u,
} as const;

/**
 * SECURITY: against hostile names: ids become paths and names, so anything but their plain form is
 * refused. Guarded by the suite of backends.
 *
 * @throws SandboxError `INVALID_REQUEST`
 */
export function checkId(kind: keyof typeof FORMS, id: string): void {
  if (!isId(kind, id))
    throw new SandboxError(
      "INVALID_REQUEST",
      `${JSON.stringify(id.slice(0, 64))} is not a valid ${kind} id`,
    );
}

export function isId(kind: keyof typeof FORMS, id: string): boolean {
  return FORMS[kind].test(id);
}
