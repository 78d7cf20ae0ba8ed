/** Names of what the core makes; unguessable, and unique for ever. */
import { randomBytes } from "node:crypto";

const letters = (): string => randomBytes(12).toString("hex");

export const newSessionId = (): string => `ses_${letters()}`;
export const newSandboxId = (): string => `sbx_${letters()}`;
export const newExecId = (): string => `exe_${letters()}`;
export const newDiskId = (): string => `wsp_${letters()}`;
