/** Serves a directory of built files without a key. */
import fastifyStatic from "@fastify/static";
import type { App } from "./app.ts";

export interface StaticFiles {
  /** Begins and ends with a slash. */
  readonly prefix: string;
  readonly directory: string;
  /** The Content-Security-Policy of every page. */
  readonly policy: string;
}

/**
 * SECURITY: the files are served without a key, so the directory must contain only build output.
 * The library refuses dot files and paths that leave the directory (threat: unauthorized access).
 * Guarded by static-files.test.ts.
 */
export async function serveFiles(
  app: App,
  { prefix, directory, policy }: StaticFiles,
): Promise<void> {
  await app.register(async (files: App) => {
    files.addHook("onRoute", (route) => {
      route.config = { ...route.config, access: "open" };
    });
    await files.register(fastifyStatic, {
      root: directory,
      prefix,
      decorateReply: false,
      dotfiles: "deny",
      preCompressed: true,
      // File names do not change with their content, so browsers must revalidate each time.
      maxAge: 0,
      setHeaders: (reply) => {
        void reply.header("Content-Security-Policy", policy);
        void reply.header("Referrer-Policy", "no-referrer");
      },
    });
  });
}
