import { describe, expect, it } from "vitest";
import { fieldsOf, schemaText } from "./schema-text.ts";
import type { JsonSchema } from "./schema-text.ts";

describe("schemaText()", () => {
  const cases: readonly (readonly [string, JsonSchema])[] = [
    ["[Session](#session)", { $ref: "#/components/schemas/Session" }],
    ["[CreateSession](#createsession)", { $ref: "#/components/schemas/CreateSessionInput" }],
    ["`pool` or `cold`", { type: "string", enum: ["pool", "cold"] }],
    ["`true`", { type: "boolean", enum: [true] }],
    ["whole number from 1 to 64", { type: "integer", minimum: 1, maximum: 64 }],
    ["whole number", { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER }],
    ["whole number", { type: "string", pattern: String.raw`^\d{1,16}$` }],
    ["text like `^[0-7]{3,4}$`", { type: "string", pattern: "^[0-7]{3,4}$" }],
    ["base64", { type: "string", pattern: "^$|^(?:[0-9a-zA-Z+/]{4})*(?:==)?$" }],
    ["whole number or null", { anyOf: [{ type: "integer" }, { type: "null" }] }],
    ["names with text each", { type: "object", additionalProperties: { type: "string" } }],
    ["anything", {}],
  ];
  it.each(cases)("says %s", (words, schema) => {
    expect(schemaText(schema)).toBe(words);
  });
});

describe("fieldsOf()", () => {
  it("lists fields of inner objects and lists under the names above them", () => {
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
      { name: "pty.rows", type: "whole number from 1 to 9", meaning: "" },
      { name: "chunks", type: "list of object", meaning: "" },
      { name: "chunks[].seq?", type: "whole number from 1 to 9", meaning: "" },
    ]);
  });
});
