/** What goes wrong between the daemon and a registry: in full for the log, coarse for the client. */
import { SandboxError } from "@sandkasten/protocol";
import type { Log } from "../ports/log.ts";
import { invalidImage } from "./image-failure.ts";
import type { ImageReference } from "./reference.ts";

export type RegistryFault = "unreachable" | "denied" | "absent" | "unexpected";

/** Its message may name addresses and ports, and is not for clients. */
export class RegistryFailure extends Error {
  readonly fault: RegistryFault;

  constructor(fault: RegistryFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

/**
 * What a client hears.
 *
 * SECURITY: the answer does not tell a closed port from a silent one, nor a name that is unknown
 * from one that leads inside, nor what a page says (threat: leaked secrets and descriptors). Guarded by
 * registry-targets.test.ts.
 */
export function pullRefusal(
  fault: RegistryFault,
  { canonical }: ImageReference,
  advice = "",
): SandboxError {
  const end = advice === "" ? "" : ` ${advice}`;
  switch (fault) {
    case "unreachable":
      return new SandboxError(
        "REGISTRY_UNREACHABLE",
        `${canonical} cannot be pulled: its registry did not answer. Try again; the daemon's log says more.${end}`,
      );
    case "denied":
      return invalidImage(
        `${canonical} cannot be pulled: its registry refused access. Check the name and the credentials that docker login wrote.${end}`,
      );
    case "absent":
      return invalidImage(
        `${canonical} cannot be pulled: its registry has no such image. Check the name and the tag.${end}`,
      );
    case "unexpected":
      return invalidImage(
        `${canonical} cannot be pulled: what its registry answered is not an image.${end}`,
      );
  }
}

/** Logs a failure in full and makes of it what a client hears. Passes on whatever is none. */
export function reportedFailure(error: unknown, reference: ImageReference, log?: Log): unknown {
  if (!(error instanceof RegistryFailure)) return error;
  log?.warn({ err: error, image: reference.canonical }, "an image cannot be pulled");
  return pullRefusal(error.fault, reference);
}
