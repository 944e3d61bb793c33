// Chooses on the chat page by a click: an address on the command line, what was seen on standard output.
import { chromium } from "playwright-core";

const [url, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic"] });
const page = await browser.newPage();
const seen = { errors: [] };
page.on("console", (one) => { if (one.type() === "error") seen.errors.push(one.text()); });
page.on("pageerror", (one) => seen.errors.push(one.message));
await page.goto(url);
await page.waitForSelector("#choices button:enabled");
seen.buttons = await page.$$eval("#choices button", (all) => all.map((one) => one.textContent));
if (process.argv[4]) await page.screenshot({ path: process.argv[4] });
await page.click("#choices button:nth-child(2)");
await page.waitForFunction(() => document.querySelector("#messages").textContent.includes("has ended"));
seen.messages = await page.$$eval("#messages li", (all) => all.map((one) => one.textContent));
seen.left = await page.isVisible("#choices");
await browser.close();
console.log(JSON.stringify(seen));
