/** What the dashboard's page may load, run and show. */

export interface DashboardPolicyOptions {
  /** The domain of previews, `name` or `name:port`; `localhost` when absent. */
  readonly domain?: string;
  readonly scheme: "http" | "https";
}

/**
 * SECURITY: text from a sandbox that ends up in the page can neither run nor send anything elsewhere:
 * scripts and styles are files of the daemon and never inline, requests go to the daemon, and only
 * previews can be framed. The page itself cannot be framed, so that no preview can trick a visitor into
 * clicking its buttons (threat: hostile previews). Guarded by dashboard-routes.test.ts, and by the
 * browser tests in tests/e2e, which fail on any violation.
 */
export function dashboardPolicy({ domain, scheme }: DashboardPolicyOptions): string {
  const previews = domain === undefined ? `${scheme}://*.localhost:*` : `${scheme}://*.${domain}`;
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    "connect-src 'self'",
    `frame-src 'self' ${previews}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
