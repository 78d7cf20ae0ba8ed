/** Reads server-sent events for tests. */

export interface ServerEvent {
  readonly event: string;
  readonly id?: string;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly data: any;
}

/** The events in a text; comments count as events named `comment`. */
export function parseEvents(text: string): ServerEvent[] {
  return text
    .split("\n\n")
    .filter((block) => block !== "")
    .map((block) => {
      if (block.startsWith(":")) return { event: "comment", data: block.slice(1).trim() };
      const fields = new Map(block.split("\n").map((line) => splitOnce(line)));
      const id = fields.get("id");
      return {
        event: fields.get("event") ?? "",
        ...(id !== undefined && { id }),
        data: JSON.parse(fields.get("data") ?? "null") as unknown,
      };
    });
}

function splitOnce(line: string): [string, string] {
  const colon = line.indexOf(": ");
  return [line.slice(0, colon), line.slice(colon + 2)];
}

/** Yields events as they arrive. */
export async function* readEvents(response: Response): AsyncGenerator<ServerEvent> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    rest += decoder.decode(bytes, { stream: true });
    const end = rest.lastIndexOf("\n\n");
    if (end === -1) continue;
    const events = parseEvents(rest.slice(0, end + 2));
    rest = rest.slice(end + 2);
    yield* events;
  }
}
