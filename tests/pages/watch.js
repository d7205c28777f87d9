// Opens what `winimg watch` serves at URL while a build runs, follows it to the build's end, and prints what was seen as one JSON
// object: the places that the build was at, how often the screen's picture was another, the last headline, how often the page was
// loaded, and the faults of check.js. Pictures of the page while the build runs and at its end go to OUT.
//
//     NODE_PATH=…/node_modules node watch.js CHROMIUM URL SECONDS OUT
"use strict";

const { chromium } = require("playwright-core");
const { HEIGHT, tooWide, violations, watchFaults } = require("./look.js");

const WIDTH = 820;

async function look(page, file) {
  await page.screenshot({ path: file, fullPage: true });
  return [...(await violations(page)), ...(await page.evaluate(tooWide))];
}

// Run in the page.
function now() {
  return {
    place: document.querySelector("[data-part=now] strong")?.textContent ?? "",
    picture: document.getElementById("screen-now")?.getAttribute("src") ?? "",
  };
}

async function follow(page, deadline, whileRunning) {
  const seen = { places: [], pictures: 0 };
  let last = "";
  for (;;) {
    const { place, picture } = await page.evaluate(now);
    const runs = place !== "";
    if (runs && seen.places.at(-1) !== place) seen.places.push(place);
    if (picture !== "" && picture !== last) {
      seen.pictures += 1;
      if (seen.pictures === 1) await whileRunning();
      last = picture;
    }
    if (!runs && seen.places.length > 0) return seen;
    if (Date.now() > deadline) throw new Error(`the build has not ended: ${JSON.stringify(seen)}`);
    await page.waitForTimeout(100);
  }
}

async function main([executablePath, url, seconds, to]) {
  const browser = await chromium.launch({ executablePath });
  const page = await browser.newPage({ viewport: { width: WIDTH, height: HEIGHT } });
  const faults = watchFaults(page, (asked) => asked.startsWith(url));
  let loads = 0;
  page.on("load", () => (loads += 1));
  await page.goto(url);
  const deadline = Date.now() + 1000 * Number(seconds);
  const seen = await follow(page, deadline, async () => {
    faults.push(...(await look(page, `${to}/watch-running.png`)));
  });
  // The build's last records are on their way.
  await page.waitForTimeout(3000);
  faults.push(...(await look(page, `${to}/watch-ended.png`)));
  const headline = await page.textContent("h1");
  await browser.close();
  console.log(JSON.stringify({ ...seen, headline, loads, faults: [...new Set(faults)] }));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(2);
});
