// What is wrong with an open page.
"use strict";

const axe = require("axe-core");

const HEIGHT = 900;

// What the page says and asks for while it is open.
function watchFaults(page, isOwn) {
  const faults = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`script: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!isOwn(url) && !url.startsWith("data:")) faults.push(`request: ${url}`);
  });
  return faults;
}

// What makes a page wider than its window, innermost first; run in the page.
function tooWide() {
  const { scrollWidth, clientWidth } = document.scrollingElement;
  if (scrollWidth <= clientWidth) return [];
  const sticksOut = (element) => {
    const own = getComputedStyle(element).overflowX === "visible" ? element.scrollWidth : 0;
    return element.getBoundingClientRect().left + Math.max(element.offsetWidth ?? 0, own) > clientWidth + 0.5;
  };
  const out = [...document.body.querySelectorAll("*")].filter(sticksOut).reverse().slice(0, 3);
  const name = (element) => `<${element.tagName.toLowerCase()}> ${element.textContent.trim().slice(0, 40)}`;
  return [`wider than its window: ${out.map(name).join(" | ")}`];
}

async function violations(page) {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => (await globalThis.axe.run()).violations);
  const where = (nodes) => nodes.slice(0, 3).map((node) => node.target.join(" "));
  return found.map(({ id, help, nodes }) => `axe: ${id}: ${help}: ${where(nodes).join(" | ")}`);
}

module.exports = { HEIGHT, tooWide, violations, watchFaults };
