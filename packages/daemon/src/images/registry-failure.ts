/** Failures between the daemon and a registry: detailed for the log, coarse for the client. */
import { SandboxError } from "@sandkasten/protocol";
import type { Log } from "../ports/log.ts";
import { invalidImage } from "./image-failure.ts";
import type { ImageReference } from "./reference.ts";

export type RegistryFault = "unreachable" | "denied" | "absent" | "unexpected";

/** Its message may name addresses and ports; never send it to clients. */
export class RegistryFailure extends Error {
  readonly fault: RegistryFault;

  constructor(fault: RegistryFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

/**
 * The error for the client.
 *
 * SECURITY: the response does not distinguish a closed port from a silent one, an unknown name from
 * one that leads inside, or what a page says (threat: leaked secrets and descriptors). Guarded by
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
        `${canonical} cannot be pulled: its registry did not respond. Try again; the daemon's log has details.${end}`,
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
        `${canonical} cannot be pulled: its registry did not return an image.${end}`,
      );
  }
}

/** Logs a failure in detail and returns the error for the client. Other errors are returned unchanged. */
export function reportedFailure(error: unknown, reference: ImageReference, log?: Log): unknown {
  if (!(error instanceof RegistryFailure)) return error;
  log?.warn({ err: error, image: reference.canonical }, "cannot pull an image");
  return pullRefusal(error.fault, reference);
}
