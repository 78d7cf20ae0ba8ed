/** The sandbox tools as a Model Context Protocol server. */
export { serveHttp, type HttpServerOptions, type RunningMcpServer } from "./serve-http.ts";
export { serveStdioSession, type StdioServerOptions } from "./serve-stdio.ts";
export { startMcpTelemetry } from "./mcp-telemetry.ts";
export type { McpSessionOptions } from "./mcp-session.ts";
