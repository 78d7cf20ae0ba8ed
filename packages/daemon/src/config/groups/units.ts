/** Units and ranges of settings. */
import { z } from "zod";
import { anyNumber, wholeNumber } from "../kinds.ts";

export const MIB = 2 ** 20;
export const GIB = 2 ** 30;
export const MAX_BYTES = 2 ** 43;
export const HOUR_SECONDS = 3600;
export const DAY_SECONDS = 86_400;
export const YEAR_SECONDS = 365 * DAY_SECONDS;

export const cpus = () => anyNumber(0.01, 1000);
export const memoryMb = () => wholeNumber(16, MAX_BYTES / MIB);
export const processes = () => wholeNumber(16, 4_000_000);
export const diskMb = () => wholeNumber(4, MAX_BYTES / MIB);
export const inodes = () => wholeNumber(64, 2 ** 31);
export const amount = () => wholeNumber(1, 1_000_000);
export const bytes = (least: number) => wholeNumber(least, MAX_BYTES);

/** A key that only contains others. */
export const group = <Shape extends z.ZodRawShape>(shape: Shape) => z.strictObject(shape);
