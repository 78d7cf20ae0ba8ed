/** Responds to input that is not a valid HTTP request and cannot be routed. */
import type { Socket } from "node:net";
import { ERROR_CATALOGUE } from "@sandkasten/protocol";
import type { ErrorBody, ErrorCode } from "@sandkasten/protocol";
import { newRequestId } from "../request/request-id.ts";

interface ParseFailure {
  readonly code: ErrorCode;
  readonly message: string;
}

const FAILURES: Readonly<Record<string, ParseFailure>> = {
  ERR_HTTP_REQUEST_TIMEOUT: {
    code: "INVALID_REQUEST",
    message: "the head of the request did not arrive in time",
  },
  HPE_HEADER_OVERFLOW: {
    code: "PAYLOAD_TOO_LARGE",
    message: "the head of the request is larger than allowed",
  },
};
const MALFORMED: ParseFailure = {
  code: "INVALID_REQUEST",
  message: "this is not a valid HTTP request",
};

export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const { code, message } = FAILURES[error.code ?? ""] ?? MALFORMED;
  const requestId = newRequestId();
  const body: ErrorBody = { error_code: code, message, request_id: requestId };
  const json = JSON.stringify(body);
  const head = [
    `HTTP/1.1 ${ERROR_CATALOGUE[code].status} ${code}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(json)}`,
    `X-Request-ID: ${requestId}`,
    "X-Content-Type-Options: nosniff",
    "Connection: close",
  ].join("\r\n");
  socket.end(`${head}\r\n\r\n${json}`, () => socket.destroy());
}
