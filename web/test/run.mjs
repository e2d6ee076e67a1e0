// Bundles the tests, which are TypeScript as what they test, and runs them in node.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = mkdtempSync(join(tmpdir(), "page-test-"));
try {
  const entryPoints = readdirSync(here).filter((name) => name.endsWith(".test.ts")).map((name) => join(here, name));
  await build({ entryPoints, outdir: out, bundle: true, format: "esm", platform: "node", outExtension: { ".js": ".mjs" }, loader: { ".json": "json" }, logLevel: "warning" });
  const { status } = spawnSync(process.execPath, ["--test", ...readdirSync(out).map((name) => join(out, name))], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
