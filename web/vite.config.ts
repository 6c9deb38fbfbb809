/// <reference types="vitest/config" />
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const OUT = "../src/holdfast/pages/dist";
const SERVICE = process.env.HOLDFAST_URL ?? "http://127.0.0.1:8000";

/** Compressed once, here, as small as can be: the server only picks. */
function compressed(): Plugin {
  let out = OUT;
  return {
    name: "holdfast-compressed",
    apply: "build",
    configResolved(config) {
      out = config.build.outDir;
    },
    closeBundle() {
      const folder = join(resolve(import.meta.dirname, out), "assets");
      for (const name of readdirSync(folder)) {
        if (!/\.(js|css|svg)$/.test(name)) continue;
        const body = readFileSync(join(folder, name));
        const most = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
        writeFileSync(join(folder, `${name}.br`), brotliCompressSync(body, most));
        writeFileSync(join(folder, `${name}.gz`), gzipSync(body, { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  plugins: [compressed()],
  // Nothing inline: the content security policy allows neither scripts nor styles in the page.
  build: {
    outDir: OUT,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  server: {
    proxy: {
      "/v1": { target: SERVICE, ws: true },
      "/metrics": SERVICE,
      "/pages.json": SERVICE,
      "/docs": SERVICE,
      "/openapi.json": SERVICE,
    },
  },
  test: { include: ["src/**/*.test.ts"] },
});
