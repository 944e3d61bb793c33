// Types each word into the site's search, and prints the pages that it finds first: address, Chromium and the words on the command line.
import { chromium } from "playwright-core";

const [url, executablePath, ...words] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic"] });
const page = await browser.newPage();
const found = "a[href*='.html']:has(mark), li:has(mark) a[href*='.html'], .md-search-result__link";
const pages = {};
for (const word of words) {
  await page.goto(url);
  await page.keyboard.press("/");
  await page.keyboard.type(word);
  await page.waitForSelector(found, { timeout: 5000 }).catch(() => {});
  await page.waitForTimeout(300);
  const links = await page.$$eval(found, (all) => all.map((one) => one.href));
  pages[word] = [...new Set(links.map((link) => link.split("#")[0].replace(/.*\/site\//, "").split("?")[0]))];
}
await browser.close();
console.log(JSON.stringify(pages));
