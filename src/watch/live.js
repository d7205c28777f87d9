// Puts what `winimg watch` sends into the page: parts by their ids, their order, and the machine's screen.
"use strict";
{
  const main = document.querySelector("main");
  const lost = document.getElementById("lost");
  const part = (id) => [...main.children].find((child) => child.dataset.part === id);
  const reachable = (box) => [...box.querySelectorAll("a,summary,[tabindex]")];

  // The same place in the new text: what is unfolded, scrolled or has the focus stays so.
  function replace(box, html) {
    const folds = [...box.querySelectorAll("details")].map((fold) => fold.open);
    const scrolled = [...box.querySelectorAll("pre")].map((text) => ({
      top: text.scrollTop,
      atEnd: text.scrollTop + text.clientHeight >= text.scrollHeight - 2,
    }));
    const focus = reachable(box).indexOf(document.activeElement);
    box.innerHTML = html;
    box.querySelectorAll("details").forEach((fold, n) => {
      if (n < folds.length) fold.open = folds[n];
    });
    box.querySelectorAll("pre").forEach((text, n) => {
      if (scrolled[n]) text.scrollTop = scrolled[n].atEnd ? text.scrollHeight : scrolled[n].top;
    });
    if (focus >= 0) reachable(box)[focus]?.focus({ preventScroll: true });
  }

  const source = new EventSource(`events?since=${main.dataset.at}`);
  source.addEventListener("order", (event) => {
    const ids = JSON.parse(event.data);
    for (const child of [...main.children]) {
      if (!ids.includes(child.dataset.part)) child.remove();
    }
    ids.forEach((id, n) => {
      let box = part(id);
      if (!box) {
        box = document.createElement("div");
        box.dataset.part = id;
      }
      if (main.children[n] !== box) main.insertBefore(box, main.children[n] ?? null);
    });
  });
  source.addEventListener("part", (event) => {
    const { id, html } = JSON.parse(event.data);
    const box = part(id);
    if (box) replace(box, html);
  });
  source.addEventListener("screen", (event) => {
    const picture = document.getElementById("screen-now");
    if (picture) {
      picture.src = `screen?${event.data}`;
      picture.hidden = false;
    }
  });
  source.addEventListener("end", () => {
    source.close();
    lost.hidden = false;
  });
  source.addEventListener("open", () => (lost.hidden = true));
  source.addEventListener("error", () => (lost.hidden = false));
}
