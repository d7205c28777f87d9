// Opens every page below IN in headless Chromium at three widths, light and dark, and keeps pictures and a print in OUT.
// Prints a line for each fault: an error on the console, a request, a violation that axe-core finds, a page wider than its window,
// a link to nothing. Ends with 1 where there is one.
//
//     NODE_PATH=…/node_modules node check.js CHROMIUM IN OUT
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { fileURLToPath, pathToFileURL } = require("node:url");
const { chromium } = require("playwright-core");
const { HEIGHT, tooWide, violations, watchFaults } = require("./look.js");

const WIDTHS = [390, 820, 1440];
const SCHEMES = ["light", "dark"];

function pagesBelow(folder) {
  const entries = fs.readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".html"));
  return files.map((entry) => path.join(entry.parentPath ?? entry.path, entry.name)).sort();
}

// Links within the page that lead nowhere, and those to files beside it; run in the page.
function links() {
  const all = [...document.querySelectorAll("a[href]")].map((link) => link.getAttribute("href"));
  const within = all.filter((href) => href.startsWith("#"));
  return {
    dead: within.filter((href) => !document.getElementById(href.slice(1))),
    files: all.filter((href) => !/^(#|[a-z]+:)/.test(href)),
  };
}

async function check(context, file, picture) {
  const own = pathToFileURL(file).href;
  const page = await context.newPage();
  const faults = watchFaults(page, (url) => url === own);
  await page.goto(own, { waitUntil: "load" });
  faults.push(...(await page.evaluate(tooWide)));
  await page.screenshot({ path: `${picture}.png`, fullPage: true });
  const { dead, files } = await page.evaluate(links);
  const missing = files.filter((href) => !fs.existsSync(fileURLToPath(new URL(href, own))));
  faults.push(...[...dead, ...missing].map((href) => `link: ${href} leads to nothing`));
  // What is folded is read, too, and may be wider.
  const folded = await page.evaluate(() => {
    const details = [...document.querySelectorAll("details:not([open])")];
    for (const each of details) each.open = true;
    return details.length;
  });
  if (folded > 0) {
    faults.push(...(await page.evaluate(tooWide)));
    await page.screenshot({ path: `${picture}-unfolded.png`, fullPage: true });
  }
  faults.push(...(await violations(page)));
  await page.close();
  return faults;
}

async function print(browser, file, to) {
  const page = await browser.newPage();
  await page.goto(pathToFileURL(file).href);
  await page.pdf({ path: to, format: "A4" });
  await page.close();
}

async function main([executablePath, from, to]) {
  const pages = pagesBelow(from);
  if (pages.length === 0) throw new Error(`no page below ${from}`);
  const browser = await chromium.launch({ executablePath });
  let wrong = 0;
  for (const file of pages) {
    const name = path.relative(from, file);
    const flat = name.replace(/\.html$/, "").replaceAll(path.sep, "-");
    // Each fault with the sizes that it is seen at.
    const found = new Map();
    for (const width of WIDTHS) {
      for (const colorScheme of SCHEMES) {
        const context = await browser.newContext({ viewport: { width, height: HEIGHT }, colorScheme });
        const faults = await check(context, file, path.join(to, `${flat}-${width}-${colorScheme}`));
        await context.close();
        for (const fault of new Set(faults)) {
          found.set(fault, [...(found.get(fault) ?? []), `${width} ${colorScheme}`]);
        }
      }
    }
    for (const [fault, where] of found) console.log(`${name}: ${fault} (${where.join(", ")})`);
    wrong += found.size;
    await print(browser, file, path.join(to, `${flat}.pdf`));
  }
  await browser.close();
  console.log(`${pages.length} pages, ${WIDTHS.length * SCHEMES.length} times each: ${wrong} faults`);
  return wrong > 0 ? 1 : 0;
}

main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error) => {
    console.error(error);
    process.exit(2);
  },
);
