// Bundles the control room into the Python package: hashed assets and one index.html without inline script or style.
import { build, context } from "esbuild";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const asked = process.argv.indexOf("--out");
const out = asked > 0 ? resolve(process.argv[asked + 1]) : join(here, "../src/fleetlore/server/static");
const assets = join(out, "assets");

async function writePage(outputs) {
  const built = Object.keys(outputs).map((path) => basename(path));
  const script = built.find((name) => /^main-.*\.js$/.test(name));
  const style = built.find((name) => /^main-.*\.css$/.test(name));
  const icon = built.find((name) => /^icon-.*\.svg$/.test(name));
  const page = (await readFile(join(here, "index.html"), "utf8"))
    .replaceAll("%SCRIPT%", `/assets/${script}`)
    .replaceAll("%STYLE%", `/assets/${style}`)
    .replaceAll("%ICON%", `/assets/${icon}`);
  await writeFile(join(out, "index.html"), page);
  const old = (await readdir(assets)).filter((name) => !built.includes(name));
  await Promise.all(old.map((name) => rm(join(assets, name))));
}

const writesPage = {
  name: "writes-page",
  setup(job) {
    job.onEnd(async (result) => {
      if (result.errors.length === 0) await writePage(result.metafile.outputs);
    });
  },
};

const options = {
  entryPoints: { main: join(here, "src/main.tsx"), icon: join(here, "src/icon.svg") },
  outdir: assets,
  entryNames: "[name]-[hash]",
  chunkNames: "part-[hash]",
  bundle: true,
  splitting: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".svg": "copy" },
  legalComments: "none",
  metafile: true,
  logLevel: "info",
  plugins: [writesPage],
};

await mkdir(assets, { recursive: true });
if (process.argv.includes("--watch")) await (await context({ ...options, minify: false })).watch();
else await build(options);
