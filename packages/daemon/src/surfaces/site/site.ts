/** The web pages: the API reference at `/docs` and the guides at `/guide`. */
import { join } from "node:path";
import type { App } from "../http/app.ts";
import { serveFiles } from "../http/static-files.ts";

/**
 * SECURITY: pages run only scripts of this origin, reach only this origin and cannot be framed, so a key
 * typed into the API reference stays with the daemon (threat: foreign web pages). Inline styles are
 * refused, too: Scalar's go into constructed style sheets (adopted-styles.js of packages/site), which
 * need no exception. Images may be data, which Scalar's style sheet uses for icons. Guarded by
 * tests/e2e/site.test.ts.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** `directory` is the output of packages/site. */
export async function serveSite(app: App, directory: string): Promise<void> {
  for (const name of ["docs", "guide"]) {
    const config = { access: "open" } as const;
    app.get(`/${name}`, { config, schema: { hide: true } }, (_request, reply) =>
      reply.redirect(`/${name}/`),
    );
    await serveFiles(app, {
      prefix: `/${name}/`,
      directory: join(directory, name),
      policy: POLICY,
    });
  }
}
