// Writes the sample houses as files that `holdfast events create` takes:
//   node src/design/houses/export.mjs FOLDER
// Vite reads the TypeScript, for Node.js 20 does not; nothing else is built.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "vite";

const folder = resolve(process.argv[2] ?? "houses");
const made = mkdtempSync(join(tmpdir(), "holdfast-houses-"));
try {
  await build({
    configFile: false,
    logLevel: "error",
    root: import.meta.dirname,
    build: {
      ssr: join(import.meta.dirname, "export.ts"),
      outDir: made,
      rolldownOptions: { output: { entryFileNames: "export.mjs" } },
    },
  });
  const { exported } = await import(pathToFileURL(join(made, "export.mjs")).href);
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of exported()) writeFileSync(join(folder, `${name}.json`), text);
} finally {
  rmSync(made, { recursive: true });
}
