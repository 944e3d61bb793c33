// Sends a message before the first conversation has begun: an address on the command line, what was seen on standard output.
import { chromium } from "playwright-core";

const [url, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic"] });
const page = await browser.newPage();
let sent, asked;
const typed = new Promise((done) => { sent = done; });
const loaded = new Promise((done) => { asked = done; });
await page.route("**/definitions", async (route) => { asked(); await typed; await route.continue(); });
await page.goto(url, { waitUntil: "commit" });
await loaded; // the page works, and has no conversation yet
await page.fill("#text", "Ada");
await page.press("#text", "Enter");
sent();
await page.waitForFunction(() => document.querySelector("#messages").textContent.includes("Ada"));
const seen = await page.$$eval("#messages li", (all) => all.map((one) => one.textContent));
await browser.close();
console.log(JSON.stringify(seen));
