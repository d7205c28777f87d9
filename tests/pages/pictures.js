// Takes the pictures of docs/pictures from pages of real builds.
//
//     NODE_PATH=…/node_modules node pictures.js CHROMIUM TO NAME=PAGE[#SECTION]…
"use strict";

const path = require("node:path");
const { pathToFileURL } = require("node:url");
const { chromium } = require("playwright-core");

// As wide as the book's column, so that a picture is shown as it was taken.
const VIEWPORT = { width: 1100, height: 850 };

async function main([executablePath, to, ...pictures]) {
  const browser = await chromium.launch({ executablePath });
  const page = await browser.newPage({ viewport: VIEWPORT, colorScheme: "light" });
  for (const picture of pictures) {
    const [, name, file, section] = /^([\w-]+)=([^#]+)(#[\w-]+)?$/.exec(picture);
    await page.goto(pathToFileURL(file).href, { waitUntil: "load" });
    const shown = section ? page.locator(section) : page;
    await shown.screenshot({ path: path.join(to, `${name}.png`) });
  }
  await browser.close();
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
