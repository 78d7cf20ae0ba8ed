import { expect, test } from "vitest";
import { databaseFailure } from "./database-failure.ts";

const failed = (code: string): Error => Object.assign(new Error("db.internal failed"), { code });

test.each(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EPIPE"])(
  "%s of a socket means that the database does not respond, without its host",
  (code) => {
    const failure = databaseFailure(failed(code), "reading");
    expect(failure.code).toBe("DATABASE_UNREACHABLE");
    expect(failure.message).not.toContain("db.internal");
  },
);

test.each(["ERR_INVALID_URL", "ERR_TLS_CERT_ALTNAME_INVALID", "ERR_INVALID_ARG_TYPE"])(
  "%s of Node is a mistake that no repetition corrects",
  (code) => {
    expect(databaseFailure(failed(code), "reading").code).toBe("INTERNAL_ERROR");
  },
);
