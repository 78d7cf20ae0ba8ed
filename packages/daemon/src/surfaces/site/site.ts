/** The web pages: the API reference at `/docs` and the guides at `/guide`. */
import { join } from "node:path";
import type { App } from "../http/app.ts";
import { serveFiles } from "../http/static-files.ts";

const STRICT = {
  "default-src": "'none'",
  "script-src": "'self'",
  "style-src": "'self'",
  "img-src": "'self' data:",
  "connect-src": "'self'",
  "base-uri": "'none'",
  "form-action": "'none'",
  "frame-ancestors": "'none'",
};

/**
 * SECURITY: pages run only scripts of this origin, connect only to this origin and cannot be
 * framed, so a key that is typed into the API reference stays with the daemon (threat: foreign web
 * pages). Only the reference may set styles from its script. Guarded by tests/e2e/site.test.ts.
 */
const GUIDE_POLICY = policyOf(STRICT);
const REFERENCE_POLICY = policyOf({ ...STRICT, "style-src": "'self' 'unsafe-inline'" });

/** `directory` is the output of packages/site. */
export async function serveSite(app: App, directory: string): Promise<void> {
  for (const [name, policy] of [
    ["docs", REFERENCE_POLICY],
    ["guide", GUIDE_POLICY],
  ] as const) {
    const config = { access: "open" } as const;
    app.get(`/${name}`, { config, schema: { hide: true } }, (_request, reply) =>
      reply.redirect(`/${name}/`),
    );
    await serveFiles(app, { prefix: `/${name}/`, directory: join(directory, name), policy });
  }
}

function policyOf(directives: Readonly<Record<string, string>>): string {
  return Object.entries(directives)
    .map(([name, value]) => `${name} ${value}`)
    .join("; ");
}
