/** The content of a file to write, in any spelling, as bytes. */
import { z } from "zod";

export const contentFields = {
  contents: z.string().optional().describe("The file as text. An empty string is fine."),
  contents_b64: z.string().optional().describe("The file as base64, for binary files."),
  content: z.string().optional().describe("= contents; see encoding"),
  encoding: z
    .enum(["text", "utf-8", "utf8", "base64"])
    .optional()
    .describe("Encoding of content; default: text."),
  content_base64: z.string().optional().describe("= contents_b64"),
  text: z.string().optional().describe("= contents"),
};

type ContentInput = {
  readonly [Name in keyof typeof contentFields]?: string | undefined;
};

/** Several spellings may be given only if they mean the same bytes. */
export function contentOf(context: z.core.$RefinementCtx, raw: ContentInput): Uint8Array {
  const isBase64 = raw.encoding === "base64";
  const sources: readonly (readonly [string, string | undefined, boolean])[] = [
    ["contents", raw.contents, false],
    ["contents_b64", raw.contents_b64, true],
    ["content", raw.content, isBase64],
    ["content_base64", raw.content_base64, true],
    ["text", raw.text, false],
  ];
  const given = sources.flatMap(([name, value, encoded]) => {
    if (value === undefined) return [];
    if (encoded && !isBase64Text(value))
      context.addIssue({ code: "custom", path: [name], message: "is not valid base64" });
    return [{ name, bytes: Buffer.from(value, encoded ? "base64" : "utf8") }];
  });
  const [first] = given;
  const other = given.find(({ bytes }) => first !== undefined && !bytes.equals(first.bytes));
  if (first === undefined)
    context.addIssue({ code: "custom", message: "give the file's content as `contents`" });
  else if (other !== undefined)
    context.addIssue({
      code: "custom",
      message: `\`${first.name}\` and \`${other.name}\` are two names for the same thing, and their values differ; give one of them`,
    });
  return first?.bytes ?? new Uint8Array();
}

function isBase64Text(text: string): boolean {
  const plain = text.replace(/\s+/g, "");
  return plain.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(plain);
}
