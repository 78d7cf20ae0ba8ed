import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALICES_KEY, BOBS_KEY } from "../testing/http-fixture.ts";
import { PreviewFixture } from "../testing/preview-fixture.ts";
import { PreviewAddresses } from "./preview-address.ts";

let fixture: PreviewFixture;
beforeAll(async () => {
  fixture = await PreviewFixture.start((request, response) => {
    response.end(`app ${request.method ?? ""} ${request.url ?? ""}`);
  });
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

const bearer = { authorization: `Bearer ${ALICES_KEY}` };

describe("the host of a preview", () => {
  it("reaches the application with every path, including those of the API", async () => {
    for (const path of ["/", "/v1/sessions", "/healthz", "/docs", "/preview", "/a//b/../c?d=%zz&e"])
      expect(await fixture.ask(fixture.host(), { path, headers: bearer })).toMatchObject({
        status: 200,
        text: `app GET ${path}`,
      });
  });

  it("forwards every method that a web server can handle", async () => {
    for (const method of ["POST", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "REPORT", "QUERY"])
      expect(await fixture.ask(fixture.host(), { method, headers: bearer })).toMatchObject({
        status: 200,
        text: `app ${method} /`,
      });
  });

  it("can be written in capitals, with the original id, and with any port", async () => {
    const bare = fixture.host().replace(/:\d+$/, "");
    const spellings = [bare, `${bare}:1`, bare.toUpperCase(), bare.replace("ses-", "ses_")];
    for (const host of spellings)
      expect([host, (await fixture.ask(host, { headers: bearer })).status]).toEqual([host, 200]);
  });

  it("is refused without a key or a link, whatever the path", async () => {
    for (const path of ["/", "/healthz", "/readyz", "/docs"])
      for (const headers of [{}, { authorization: "Bearer wrong-key" }])
        expect(await fixture.ask(fixture.host(), { path, headers })).toMatchObject({
          status: 401,
          text: expect.stringContaining("PREVIEW_DENIED") as string,
        });
    const bobs = { authorization: `Bearer ${BOBS_KEY}` };
    expect(await fixture.ask(fixture.host(), { headers: bobs })).toMatchObject({ status: 404 });
  });

  it("is only one label below the domain", async () => {
    const bare = fixture.host().replace(/:\d+$/, "");
    const label = bare.replace(".localhost", "");
    const tricks = [
      `${bare}.`,
      `x.${bare}`,
      `${bare}.localhost`,
      `${label}.evil.test`,
      `${label}.localhost.evil.test`,
      `${label}localhost`,
      `${label}`,
      `user@${bare}`,
      `user:secret@${bare}:80`,
      `${bare}:80@localhost`,
      `${bare}:`,
      `${bare}:port`,
      `${bare}/path`,
      `${bare}#`,
      ` ${bare},localhost`,
      bare.replace("8000", "08000"),
      bare.replace("8000", "0"),
      bare.replace("8000", "65536"),
      bare.replace("8000", "+8000"),
      bare.replace("8000-", "8000--"),
      bare.replace("ses", "sbx"),
      `${bare.replace(".localhost", "")}0.localhost`,
      `[${bare}]`,
    ];
    for (const host of tricks) {
      const answer = await fixture.ask(host, { path: "/v1/sessions", headers: bearer });
      expect([host, answer.status]).toEqual([host, 403]);
    }
  });

  it("must occur exactly once, and takes precedence over the URL of the request", async () => {
    const lines = (head: string[]): string => [...head, "Connection: close", "", ""].join("\r\n");
    const { http } = fixture;
    const authorization = `Authorization: Bearer ${ALICES_KEY}`;
    const hosts = [`Host: ${fixture.host()}`, "Host: localhost"];
    for (const both of [hosts, hosts.toReversed()])
      expect(await http.exchange(lines(["GET / HTTP/1.1", ...both, authorization]))).toMatch(
        /^HTTP\/1\.1 403 /,
      );
    for (const target of ["http://localhost/v1/sessions", "*"]) {
      const head = [`OPTIONS ${target} HTTP/1.1`, `Host: ${fixture.host()}`, authorization];
      expect(await http.exchange(lines(head))).toMatch(/^HTTP\/1\.1 400 /);
    }
    const host = "Host: localhost";
    const elsewhere = [`GET http://${fixture.host()}/ HTTP/1.1`, host, authorization];
    expect(await http.exchange(lines(elsewhere))).toMatch(/^HTTP\/1\.1 404 /);
  });

  it("reaches nothing if nothing listens on its port", async () => {
    expect(await fixture.ask(fixture.host(8001), { headers: bearer })).toMatchObject({
      status: 502,
      text: expect.stringContaining("PORT_REFUSED") as string,
    });
  });

  it("reserves its own route", async () => {
    expect(await fixture.http.call("/preview")).toMatchObject({ status: 400 });
    expect(await fixture.http.call("/preview", { key: null })).toMatchObject({ status: 401 });
  });
});

describe("the address of a preview", () => {
  const address = { sessionId: "ses_0123456789abcdef01234567", port: 8000 };
  const label = "8000-ses-0123456789abcdef01234567";

  it.each([
    [{}, "127.0.0.1:8080", `http://${label}.localhost:8080/?sandkasten_token=t`],
    [{}, "localhost", `http://${label}.localhost/?sandkasten_token=t`],
    [{}, "[::1]:1", `http://${label}.localhost:1/?sandkasten_token=t`],
    [
      {},
      "box.example:8080",
      `http://box.example:8080/v1/sessions/${address.sessionId}/proxy/8000~t/`,
    ],
    [
      { domain: "p.example.net:8443", scheme: "https" as const },
      "box.example",
      `https://${label}.p.example.net:8443/?sandkasten_token=t`,
    ],
  ])("with %j, requested at %s, is %s", (options, asked, url) => {
    const addresses = new PreviewAddresses({ scheme: "http", ...options });
    expect(addresses.urlOf(address, "t", asked)).toBe(url);
  });
});
