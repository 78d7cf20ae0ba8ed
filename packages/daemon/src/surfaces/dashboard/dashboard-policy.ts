/** What the dashboard's page may load, run and show. */

export interface DashboardPolicyOptions {
  /** The domain of previews, `name` or `name:port`; `localhost` when absent. */
  readonly domain?: string;
  readonly scheme: "http" | "https";
}

/**
 * SECURITY: whatever text of a sandbox ends up in the page, it can neither run nor send anything
 * elsewhere: scripts and styles are files of the daemon, requests go to the daemon, and only previews
 * may be framed. Attributes may have styles, which the terminal needs for colours; they can load
 * nothing. The page cannot be framed itself, so that no preview can have its buttons clicked (threat:
 * hostile previews). Guarded by dashboard-routes.test.ts.
 */
export function dashboardPolicy({ domain, scheme }: DashboardPolicyOptions): string {
  const previews = domain === undefined ? `${scheme}://*.localhost:*` : `${scheme}://*.${domain}`;
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "style-src-attr 'unsafe-inline'",
    "img-src 'self' blob:",
    "connect-src 'self'",
    `frame-src 'self' ${previews}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
