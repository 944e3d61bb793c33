// Uses the chat page as a person does, in a real browser: an address on the command line, what was seen on standard output.
import { chromium } from "playwright-core";

const [url, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const seen = { outside: [], errors: [] };
const page = await browser.newPage({ viewport: { width: 375, height: 720 }, colorScheme: "dark", hasTouch: true });
page.on("request", (one) => { if (!one.url().startsWith(url) && !one.url().startsWith("data:")) seen.outside.push(one.url()); });
page.on("console", (one) => { if (one.type() === "error") seen.errors.push(one.text()); });
page.on("pageerror", (one) => seen.errors.push(one.message));
const said = () => page.$$eval("#messages li", (all) => all.map((one) => one.textContent));
const idle = () => page.waitForFunction(() => document.querySelector("#messages").getAttribute("aria-busy") === "false");

await page.goto(url);
await page.waitForSelector("#messages li");
await page.keyboard.type("5 back <b>please</b>");
await page.keyboard.press("Enter");
await page.waitForSelector("#answer button");
seen.focus = await page.evaluate(() => document.activeElement.textContent);
await page.keyboard.press("Enter");
await page.waitForFunction(() => document.querySelector("#answer textarea"));
await idle();
await page.fill("#answer textarea", "not json");
await page.click("#answer button");
seen.problem = await page.textContent("#problem");
await page.fill("#answer textarea", '{"by": "Eve"}');
await page.click("#answer button");
await page.waitForFunction(() => document.querySelector("#messages").textContent.includes("has ended"));
seen.messages = await said();
seen.state = await page.textContent("#state");
seen.fits = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
seen.dark = await page.evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches);
seen.names = await page.locator("body").ariaSnapshot();
await page.goto(`${url}/docs`);
await page.waitForFunction(() => document.querySelector("openapi-explorer")?.shadowRoot?.textContent.includes("Send a message"));
await browser.close();
console.log(JSON.stringify(seen));
