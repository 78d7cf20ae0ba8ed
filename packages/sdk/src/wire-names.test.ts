import type * as wire from "@sandkasten/protocol";
import { ERROR_CATALOGUE } from "@sandkasten/protocol";
import { expect, expectTypeOf, test } from "vitest";
import { errorTable } from "./error-table.ts";
import type * as sdk from "./wire-names.ts";

test("the SDK has every name of the protocol, and no other", () => {
  expectTypeOf<sdk.ErrorCode>().toEqualTypeOf<wire.ErrorCode>();
  expectTypeOf<sdk.SessionStatus>().toEqualTypeOf<wire.SessionStatus>();
  expectTypeOf<sdk.EventType>().toEqualTypeOf<wire.EventType>();
  expectTypeOf<sdk.KeyScope>().toEqualTypeOf<wire.KeyBody["scope"]>();
  expectTypeOf<sdk.ExecStatus>().toEqualTypeOf<wire.ExecInfoBody["status"]>();
  expectTypeOf<sdk.EndReason | null>().toEqualTypeOf<wire.ExecInfoBody["end_reason"]>();
  expectTypeOf<sdk.OutputStream>().toEqualTypeOf<wire.OutputChunkBody["stream"]>();
  expectTypeOf<sdk.FileType>().toEqualTypeOf<wire.FileEntryBody["type"]>();
  expectTypeOf<sdk.FileChangeKind>().toEqualTypeOf<wire.FileChangeBody["kind"]>();
  expectTypeOf<sdk.SandboxIsolation>().toEqualTypeOf<wire.SessionBody["isolation_level"]>();
  expectTypeOf<sdk.SandboxProfile>().toEqualTypeOf<wire.SessionBody["profile"]>();
  expectTypeOf<sdk.AcquireSource>().toEqualTypeOf<wire.SessionBody["acquire_source"]>();
  expectTypeOf<sdk.IsolationTier>().toEqualTypeOf<wire.IsolationBody["tier"]>();
  expectTypeOf<sdk.ImageSource>().toEqualTypeOf<wire.ImageBody["source"]>();
  expectTypeOf<sdk.ImagePhase>().toEqualTypeOf<wire.ImageProgressBody["phase"]>();
});

test("the SDK knows each code of the catalogue with its status and retryability", () => {
  const catalogue = Object.entries(ERROR_CATALOGUE).map(([code, { status, retryable }]) => [
    code,
    { status, retryable },
  ]);
  expect(errorTable).toEqual(Object.fromEntries(catalogue));
});
