/** Names of what the core makes; unguessable, and unique for ever. */
import { randomBytes } from "node:crypto";

const letters = (): string => randomBytes(12).toString("hex");
const MS_DIGITS = 11;

export const newSessionId = (): string => `ses_${letters()}`;
export const newSandboxId = (): string => `sbx_${letters()}`;
/** Begins with the time: lists are sorted by it, and a database adds most cheaply at the end. */
export const newExecId = (nowMs: number): string =>
  `exe_${nowMs.toString(16).padStart(MS_DIGITS, "0").slice(-MS_DIGITS)}${letters().slice(MS_DIGITS)}`;
export const newDiskId = (): string => `wsp_${letters()}`;
