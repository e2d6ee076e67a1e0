// Builds the page into dist/. The same sources and lock file give the same bytes on every machine.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const out = process.argv[2] ?? here("dist");

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const how = {
  absWorkingDir: here("."),
  outdir: out,
  bundle: true,
  minify: true,
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};
await build({ ...how, entryPoints: { app: "src/app.tsx", terminal: "src/terminal.ts" }, format: "esm" });
// No module: not every browser starts those as a worker.
await build({ ...how, entryPoints: { worker: "src/worker.ts" }, format: "iife" });
for (const name of ["index.html", "terminal.html", "icon.svg", "icon-192.png", "icon-maskable.png", "app.webmanifest"]) copyFileSync(here(`public/${name}`), `${out}/${name}`);
