import { ERROR_CATALOGUE, RUNNER_ERROR_CODES } from "@sandkasten/protocol";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { fromRunnerError } from "../../../channel/translate-errors.ts";
import type { OpenApiDocument, Operation } from "./openapi.ts";
import { HttpFixture } from "../../testing/http-fixture.ts";

let http: HttpFixture;
let document: OpenApiDocument;
beforeAll(async () => {
  http = await HttpFixture.start();
  document = (await http.call("/openapi.json")).json as OpenApiDocument;
});
afterAll(async () => await http[Symbol.asyncDispose]());

const operations = (): (readonly [string, Operation])[] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, operation] as const),
  );

describe("the OpenAPI document", () => {
  it("is generated once, before the first request, because generating it blocks all clients", async () => {
    await using fresh = await HttpFixture.start();
    const made = vi.spyOn(fresh.app, "swagger");
    await expect.poll(() => made.mock.calls.length).toBe(1);
    expect((await fresh.call("/openapi.json")).status).toBe(200);
    expect((await fresh.call("/docs/openapi.json")).status).toBe(200);
    expect(made).toHaveBeenCalledOnce();
  });

  it("has version 3.1 and every route", () => {
    expect(document.openapi).toBe("3.1.0");
    expect(document.info).toMatchObject({ title: "Sandkasten", version: "1.2.3" });
    const routes = operations().map(([name]) => name);
    expect(routes).toHaveLength(86);
    expect(new Set(operations().map(([, { operationId }]) => operationId)).size).toBe(
      routes.length,
    );
    for (const expected of [
      "post /v1/sessions/{id}/exec",
      "get /v1/sessions/{id}/pty",
      "put /v1/workspaces/{id}/fs/tar",
      "head /v1/sessions/{id}/fs/file",
    ])
      expect(routes).toContain(expected);
  });

  it("describes every name in a path, once", () => {
    for (const [name, { parameters = [] }] of operations()) {
      const described = (parameters as readonly { name: string; in: string; required?: boolean }[])
        .filter((parameter) => parameter.in === "path" && parameter.required === true)
        .map((parameter) => parameter.name);
      const named = [...name.matchAll(/\{([^}]*)\}/g)].map(([, one]) => one);
      expect({ name, path: new Set(described) }).toEqual({ name, path: new Set(named) });
      expect(described).toHaveLength(named.length);
      expect(name).not.toContain("*");
    }
  });

  it("describes every route, its authentication and its responses", () => {
    const tags = new Set(document.tags?.map(({ name }) => name));
    const problems: string[] = [];
    for (const [name, operation] of operations()) {
      const statuses = Object.keys(operation.responses ?? {});
      const isOpen = operation.security?.length === 0;
      if (!operation.summary) problems.push(`${name} has no summary`);
      if (operation.tags?.length !== 1 || !tags.has(operation.tags[0] ?? ""))
        problems.push(`${name} has no tag`);
      if (!statuses.some((status) => /^[12]/.test(status)))
        problems.push(`${name} has no good answer`);
      if (isOpen !== /healthz|readyz/.test(name)) problems.push(`${name} needs a key, or does not`);
      if (
        !isOpen &&
        !["400", "401", "403", "500", "503"].every((status) => statuses.includes(status))
      )
        problems.push(`${name} does not have all errors`);
      for (const { description } of Object.values(operation.responses ?? {}))
        if (description === "" || description === "Default Response")
          problems.push(`${name} has an answer without words`);
    }
    expect(problems).toEqual([]);
  });

  it("lists every error about a file for every route to files", () => {
    // A cancelled call has no recipient, and the other errors are not about files.
    const others: ReadonlySet<string> = new Set(["cancelled", "changed", "no_shell"]);
    const ofReading = new Set(
      RUNNER_ERROR_CODES.filter((code) => !others.has(code) && code !== "no_space").map((code) =>
        String(fromRunnerError("stat", { code, message: "m" }).status),
      ),
    );
    const problems = operations()
      .filter(([name]) => /\/fs(\/|$)/.test(name))
      .flatMap(([name, { responses = {} }]) =>
        [...ofReading, ...(/^(post|put)/.test(name) ? ["507"] : [])]
          .filter((status) => !(status in responses))
          .map((status) => `${name} does not say that it answers ${status}`),
      );
    expect(ofReading.size).toBeGreaterThan(7);
    expect(problems).toEqual([]);
  });

  it("has separate schemas for requests and responses", () => {
    const { schemas } = document.components;
    expect(Object.keys(schemas)).toEqual(
      expect.arrayContaining([
        "CreateSessionInput",
        "Session",
        "ExecRequestInput",
        "ExecResult",
        "Error",
      ]),
    );
    expect(Object.keys(schemas)).not.toContain("SessionInput");
    expect(schemas["CreateSessionInput"]).not.toHaveProperty("additionalProperties");
    expect(schemas["Session"]).toMatchObject({
      required: expect.arrayContaining(["id", "status"]) as string[],
    });
    const all = JSON.stringify(document);
    for (const [, name = ""] of all.matchAll(/"#\/components\/schemas\/([^"]+)"/g))
      expect(schemas).toHaveProperty([name]);
    expect(all).not.toContain("PLACEHOLDER");
    const body = (path: string): unknown => document.paths[path]?.["post"]?.requestBody;
    expect(body("/v1/sessions")).toMatchObject({ required: false });
    expect(body("/v1/sessions/{id}/fs/write")).toMatchObject({ required: true });
    for (const name of ["mkdir", "move", "copy"])
      expect(body(`/v1/sessions/{id}/fs/${name}`)).toMatchObject({ required: true });
    expect(body("/v1/sessions/{id}/fs/upload")).toMatchObject({
      content: { "multipart/form-data": {} },
    });
  });

  it("names only errors of the catalogue", () => {
    for (const [, operation] of operations())
      for (const [status, { description }] of Object.entries(operation.responses ?? {}))
        for (const [, code = ""] of description.matchAll(/^`([A-Z_]+)`:/gm)) {
          expect(ERROR_CATALOGUE).toHaveProperty(code);
          expect(String(ERROR_CATALOGUE[code as keyof typeof ERROR_CATALOGUE].status)).toBe(status);
        }
  });
});

describe("the document of the page at /docs", () => {
  it("needs no key, and is the whole API without the daemon's version", async () => {
    const { status, json } = await http.call("/docs/openapi.json", { key: null });
    expect(status).toBe(200);
    expect(json).toEqual({ ...document, info: { ...document.info, version: "v1" } });
    expect(JSON.stringify(json)).not.toContain("1.2.3");
    expect((await http.call("/openapi.json", { key: null })).status).toBe(401);
  });
});
