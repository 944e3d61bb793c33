// Loads modules of the page as Vite does, for tests that need no browser.
import { runnerImport } from "vite";

export async function load(path) {
  const settings = { configFile: false, logLevel: "silent" };
  return (await runnerImport(new URL(`../src/${path}`, import.meta.url).pathname, settings)).module;
}
