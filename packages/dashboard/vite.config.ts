/**
 * How the dashboard is bundled: files with hashed names, nothing inline, which the page's policy
 * forbids.
 */
import { defineConfig, type Plugin } from "vite";

const STYLE_ATTRIBUTE =
  /(\w+)\.setAttribute\("style",`\$\{\1\.getAttribute\("style"\)\|\|""\}\$\{(\w+)\};`\)/;

/**
 * xterm.js writes colours into the attribute `style`, which the policy refuses; the CSSOM is
 * allowed. The build fails if a version of xterm.js does this differently.
 */
function xtermStyles(): Plugin {
  return {
    name: "xterm-styles",
    transform: {
      filter: { id: /@xterm\/xterm\/lib\/xterm\.mjs$/ },
      handler(code) {
        const changed = code.replace(STYLE_ATTRIBUTE, "$1.style.cssText+=`${$2};`");
        if (changed === code || changed.includes('setAttribute("style"'))
          this.error("xterm.js no longer sets style attributes in the way vite.config.ts replaces");
        return { code: changed, map: null };
      },
    },
  };
}

export default defineConfig({
  root: import.meta.dirname,
  base: "/",
  logLevel: "warn",
  plugins: [xtermStyles()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
