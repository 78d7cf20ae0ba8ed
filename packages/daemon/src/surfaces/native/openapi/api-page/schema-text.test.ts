import { describe, expect, it } from "vitest";
import { fieldsOf, schemaText } from "./schema-text.ts";
import type { JsonSchema } from "./schema-text.ts";

describe("schemaText()", () => {
  const cases: readonly (readonly [string, JsonSchema])[] = [
    ["[Session](#session)", { $ref: "#/components/schemas/Session" }],
    ["[CreateSession](#createsession)", { $ref: "#/components/schemas/CreateSessionInput" }],
    ["`pool` or `cold`", { type: "string", enum: ["pool", "cold"] }],
    ["`true`", { type: "boolean", enum: [true] }],
    ["integer from 1 to 64", { type: "integer", minimum: 1, maximum: 64 }],
    ["integer", { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER }],
    ["integer", { type: "string", pattern: String.raw`^\d{1,16}$` }],
    ["string matching `^[0-7]{3,4}$`", { type: "string", pattern: "^[0-7]{3,4}$" }],
    ["base64", { type: "string", pattern: "^$|^(?:[0-9a-zA-Z+/]{4})*(?:==)?$" }],
    ["integer or null", { anyOf: [{ type: "integer" }, { type: "null" }] }],
    ["map of string", { type: "object", additionalProperties: { type: "string" } }],
    ["any", {}],
  ];
  it.each(cases)("describes %s", (words, schema) => {
    expect(schemaText(schema)).toBe(words);
  });
});

describe("fieldsOf()", () => {
  it("lists fields of inner objects and lists below the names above them", () => {
    const side: JsonSchema = { type: "integer", minimum: 1, maximum: 9 };
    const fields = fieldsOf({
      type: "object",
      required: ["chunks"],
      properties: {
        pty: {
          type: "object",
          description: "Its size",
          required: ["rows"],
          properties: { rows: side },
        },
        chunks: { type: "array", items: { type: "object", properties: { seq: side } } },
      },
    });
    expect(fields).toEqual([
      { name: "pty?", type: "object", meaning: "Its size" },
      { name: "pty.rows", type: "integer from 1 to 9", meaning: "" },
      { name: "chunks", type: "array of object", meaning: "" },
      { name: "chunks[].seq?", type: "integer from 1 to 9", meaning: "" },
    ]);
  });
});
