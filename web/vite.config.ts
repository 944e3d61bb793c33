import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

// The licences of all packages in the build travel with it, beside its files.
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_, bundle) {
      const roots = new Set<string>();
      for (const file of Object.values(bundle)) {
        if (file.type !== "chunk") continue;
        for (const id of file.moduleIds) {
          const found = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id.replace(/^\0/, ""));
          if (found) roots.add(found[0]);
        }
      }
      // The worker is a build of its own, so that its package does not show here.
      roots.add(join(import.meta.dirname, "node_modules/@dagrejs/dagre"));
      const texts = [...roots].map(licence).sort();
      this.emitFile({
        type: "asset",
        fileName: "assets/licences.txt",
        source: `The page of the studio contains these packages.\n\n${texts.join("\n\n")}\n`,
      });
    },
  };
}

function licence(root: string): string {
  const about = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const name = readdirSync(root).find((one) => /^licen[cs]e/i.test(one));
  const text = name ? readFileSync(join(root, name), "utf8").trim() : "";
  return `${about.name} ${about.version} (${about.license})\n${text}`;
}

const compat = join(import.meta.dirname, "node_modules/preact/compat");

export default defineConfig({
  base: "./",
  plugins: [licences()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  resolve: {
    alias: [
      { find: "react/jsx-runtime", replacement: "preact/jsx-runtime" },
      { find: /^react-dom(\/client)?$/, replacement: "preact/compat" },
      { find: /^react$/, replacement: "preact/compat" },
    ],
    dedupe: ["preact"],
  },
  worker: {
    format: "es",
    rolldownOptions: { output: { entryFileNames: "assets/[name].js" } },
  },
  build: {
    outDir: "../src/llm_fsm/editor/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2000,
    // Plain names keep the difference of two builds readable. The server sends "no-cache".
    rolldownOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
});

if (!existsSync(compat)) throw new Error("run `npm ci` in web/ first");
