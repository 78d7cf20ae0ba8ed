/** The limits of a sandbox as they are recorded: with its session, and with the sandbox itself. */
import { z } from "zod";
import type { SandboxLimits } from "./ports/backend.ts";

export const limitsSchema: z.ZodType<SandboxLimits> = z.object({
  memoryBytes: z.number(),
  cpuMillicores: z.number(),
  pids: z.number(),
  diskBytes: z.number(),
  diskInodes: z.number(),
});
