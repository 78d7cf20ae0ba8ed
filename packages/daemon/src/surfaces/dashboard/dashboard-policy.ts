/** What the dashboard's page may load, run and show. */

export interface DashboardPolicyOptions {
  /** The domain of previews, `name` or `name:port`; `localhost` when absent. */
  readonly domain?: string;
  readonly scheme: "http" | "https";
}

/**
 * SECURITY: text from a sandbox that ends up in the page can neither run nor send anything
 * elsewhere: scripts and styles are files of the daemon, requests go to the daemon, and only
 * previews may be framed. Style attributes are allowed, which the terminal needs for colours; they
 * cannot load anything. The page itself cannot be framed, so a preview cannot trick users into
 * clicking its buttons (threat: hostile previews). Guarded by dashboard-routes.test.ts.
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
