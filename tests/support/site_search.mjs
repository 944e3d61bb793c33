// Opens a page of the site, in both colours and on a phone, and searches: address, words and Chromium on the command line.
import { chromium } from "playwright-core";

const [url, words, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic"] });
const page = await browser.newPage({ colorScheme: "light" });
const outside = [], errors = [];
page.on("request", (request) => { if (!/^(file|data|blob):/.test(request.url())) outside.push(request.url()); });
page.on("pageerror", (error) => errors.push(String(error)));
await page.goto(url);
const colour = (one) => one.evaluate(() => getComputedStyle(document.body).backgroundColor);
const light = await colour(page);
const night = await browser.newPage({ colorScheme: "dark" });
await night.goto(url);
const dark = await colour(night);
await page.keyboard.press("/");
await page.keyboard.type(words);
const found = "a[href*='.html']:has(mark), li:has(mark) a[href*='.html'], .md-search-result__link";
await page.waitForSelector(found, { timeout: 20000 });
const links = await page.$$eval(found, (all) => all.map((one) => one.href));
await page.goto(links[0]);
const title = await page.textContent("h1");
await page.setViewportSize({ width: 390, height: 800 });
await page.goto(url);
const fits = await page.evaluate(() => document.documentElement.scrollWidth <= 390);
await browser.close();
console.log(JSON.stringify({ outside, errors, light, dark, links, title, fits }));
