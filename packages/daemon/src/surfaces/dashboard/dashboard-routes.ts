/** The dashboard at `/`: static files, served without a key. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import type { App } from "../http/app.ts";
import { type Asset, DashboardAssets, type Encoding, PAGE } from "./dashboard-assets.ts";
import { dashboardPolicy, type DashboardPolicyOptions } from "./dashboard-policy.ts";

export interface DashboardOptions {
  /** The directory of the build. */
  readonly directory: string;
  readonly preview: DashboardPolicyOptions;
}

const NOT_BUILT = "The dashboard is not built yet: run `npm run setup` and reload this page.\n";
/** A file's name changes with its content. */
const FOREVER = "public, max-age=31536000, immutable";

/**
 * SECURITY: these routes need no key, because a page has none before the user signs in. They only
 * serve files of the build: names are looked up in a list, never in a directory. Guarded by
 * dashboard-routes.test.ts.
 */
export function dashboardRoutes(app: App, { directory, preview }: DashboardOptions): void {
  const assets = new DashboardAssets(directory);
  const policy = dashboardPolicy(preview);
  const open = {
    config: { access: "open" },
    schema: { hide: true },
    exposeHeadRoute: true,
  } as const;

  app.get("/", open, async (request, reply) => {
    const page = (await assets.load())?.get(PAGE);
    if (page === undefined)
      return reply.code(503).type("text/plain; charset=utf-8").send(NOT_BUILT);
    reply.headers({
      "Cache-Control": "no-cache",
      "Content-Security-Policy": policy,
      "Cross-Origin-Opener-Policy": "same-origin",
      "Cross-Origin-Resource-Policy": "same-origin",
      "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
      "Referrer-Policy": "no-referrer",
    });
    return sendAsset(request, reply, page);
  });

  app.get<{ Params: { name: string } }>("/assets/:name", open, async (request, reply) => {
    const asset = (await assets.load())?.get(request.params.name);
    if (asset === undefined || request.params.name === PAGE)
      throw new SandboxError("ROUTE_NOT_FOUND", "The dashboard has no such file; reload the page.");
    reply.headers({ "Cache-Control": FOREVER, "Cross-Origin-Resource-Policy": "same-origin" });
    return sendAsset(request, reply, asset);
  });
}

function sendAsset(request: FastifyRequest, reply: FastifyReply, asset: Asset): FastifyReply {
  reply.headers({ ETag: asset.etag, Vary: "Accept-Encoding" });
  if (request.headers["if-none-match"] === asset.etag) return reply.code(304).send();
  const encoding = bestEncoding(request.headers["accept-encoding"], asset);
  if (encoding !== undefined) reply.header("Content-Encoding", encoding);
  const bytes = encoding === undefined ? asset.plain : asset.compressed[encoding];
  return reply.type(asset.type).send(bytes);
}

function bestEncoding(accepted: string | undefined, { compressed }: Asset): Encoding | undefined {
  const named = (accepted ?? "")
    .split(",")
    .map((part) => part.trim().toLowerCase())
    .filter((part) => !/;\s*q=0(?:\.0*)?$/.test(part))
    .map((part) => part.split(";")[0]);
  return (["br", "gzip"] as const).find(
    (encoding) => named.includes(encoding) && compressed[encoding] !== undefined,
  );
}
