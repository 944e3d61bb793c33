// A user in the chat page and two operators in theirs, in a real browser: an address on the command line, what was seen
// on standard output.
import { chromium } from "playwright-core";

const [url, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const seen = { outside: [], errors: [] };

async function page(path, options) {
  const one = await browser.newPage(options);
  one.on("request", (made) => { if (!made.url().startsWith(url) && !made.url().startsWith("data:")) seen.outside.push(made.url()); });
  one.on("console", (made) => { if (made.type() === "error" && !made.text().includes("409")) seen.errors.push(made.text()); });
  one.on("pageerror", (error) => seen.errors.push(error.message));
  await one.goto(url + path);
  return one;
}
const said = (where) => where.$$eval("#messages li", (all) => all.map((one) => one.textContent));
const reads = (where, words) =>
  where.waitForFunction((wanted) => document.querySelector("#messages").textContent.includes(wanted), words);

// A user asks for a person and goes on writing.
const user = await page("/", { viewport: { width: 390, height: 800 }, colorScheme: "dark" });
await user.waitForSelector("#messages li");
for (const words of ["A <b>person</b>, please", "Hello?", "Are you there?"]) {
  await user.fill("#text", words);
  await user.press("#text", "Enter");
  await reads(user, words);
  await user.waitForFunction(() => document.querySelector("#messages").getAttribute("aria-busy") === "false");
}
seen.may_write = await user.isVisible("#say");

// Two operators open it. The one on a phone speaks.
const anna = await page("/operator", { viewport: { width: 390, height: 800 }, colorScheme: "dark", hasTouch: true });
const ben = await page("/operator", { viewport: { width: 1200, height: 760 }, colorScheme: "light" });
for (const operator of [anna, ben]) {
  await operator.waitForSelector("#waiting button");
  seen.listed = await operator.textContent("#waiting button strong");
  await operator.click("#waiting button");
  await reads(operator, "Are you there?");
  seen.fits = await operator.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
}
seen.read = await said(anna);
await anna.fill("#text", "Anna here.");
await anna.click("#say button");
seen.nameless = await anna.textContent("#problem");
await anna.fill("#name", "Anna");
await anna.click("#say button");
await reads(anna, "Anna here.");
await reads(ben, "Anna here.");
await reads(user, "Anna here.");
await user.fill("#text", "Thank you!");
await user.press("#text", "Enter");
await reads(anna, "Thank you!");

// Both hand back. The second one is told.
await anna.click("#hand summary");
await anna.click("#answer button");
seen.missing = await anna.textContent("#problem");
await anna.check("#answer fieldset label:has-text('No') input");
seen.fields = await anna.$$eval("#answer .label", (all) => all.map((one) => one.textContent));
await anna.selectOption("#answer select", { label: "billing" });
await anna.fill("#answer input[type=number]", "2.5");
await anna.click("#answer button");
await anna.waitForFunction(() => !document.querySelector("#done").hidden);
seen.done = await anna.textContent("#done");
await ben.waitForFunction(() => !document.querySelector("#done").hidden);
seen.other = await ben.textContent("#done");
seen.cannot_act = await ben.isHidden("#act");
await reads(user, "Is there anything else?");
seen.messages = await said(user);
await anna.click("#back");
await anna.waitForFunction(() => !document.querySelector("#empty").hidden);
seen.names = await ben.locator("body").ariaSnapshot();
await browser.close();
console.log(JSON.stringify(seen));
