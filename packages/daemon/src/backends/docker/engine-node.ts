/** What the engine tells of a path in a container. */
import type { IncomingMessage } from "node:http";

/** What is at a path of a container. A link tells where it leads in the end, within the container. */
export type EngineNode =
  | { readonly kind: "directory" | "file" | "missing" | "other" }
  | { readonly kind: "link"; readonly target: string };

/** Go's mode bits. */
const IS_DIRECTORY = 2 ** 31;
const IS_LINK = 2 ** 27;
const IS_SPECIAL = (2 ** 26) | (2 ** 25) | (2 ** 24) | (2 ** 21) | (2 ** 19);

/** The engine answers with a header. */
export function nodeOfAnswer(answer: unknown): EngineNode {
  const response = answer as IncomingMessage;
  response.resume();
  const text = Buffer.from(
    String(response.headers["x-docker-container-path-stat"]),
    "base64",
  ).toString();
  const { mode, linkTarget } = JSON.parse(text) as {
    readonly mode: number;
    readonly linkTarget: string;
  };
  if (mode >= IS_DIRECTORY) return { kind: "directory" };
  if ((mode & IS_LINK) !== 0) return { kind: "link", target: linkTarget };
  return { kind: (mode & IS_SPECIAL) === 0 ? "file" : "other" };
}
