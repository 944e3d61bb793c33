// Gives a wrong token and a right one, talks, and loads the page again: an address and a token on the command line.
import { chromium } from "playwright-core";

const [url, token, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic"] });
const page = await browser.newPage();
const said = () => page.$$eval("#messages li", (all) => all.map((one) => one.textContent));
const shown = (words) => page.waitForFunction((it) => document.querySelector("#messages").textContent.includes(it), words);
const give = async (text) => { await page.fill("#token", text); await page.press("#token", "Enter"); };
const seen = {};

await page.goto(url);
await page.waitForSelector("#ask[open]");
seen.first = await page.isVisible("#unknown");
await give("wrong");
await page.waitForSelector("#unknown:not([hidden])");
seen.refused = await page.textContent("#unknown");
await give(token);
await shown("How can I help?");
await page.fill("#text", "I am Ada");
await page.press("#text", "Enter");
await shown("Hello Ada");
seen.before = await said();
await page.reload();
await shown("Hello Ada");
seen.after = await said();
seen.state = await page.textContent("#state");
await page.fill("#text", "and again");
await page.press("#text", "Enter");
await shown("Still here");
await page.click("#new");
await shown("A new start.");
seen.fresh = await said();
await browser.close();
console.log(JSON.stringify(seen));
