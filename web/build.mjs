// Builds the page into dist/. The same sources and lock file give the same bytes on every machine.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const out = process.argv[2] ?? here("dist");

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here("."),
  entryPoints: { app: "src/app.tsx", terminal: "src/terminal.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
for (const name of ["index.html", "terminal.html", "icon.svg", "app.webmanifest"]) copyFileSync(here(`public/${name}`), `${out}/${name}`);
