"use strict";
// The page is complete without this: it only filters and opens what is there.
(() => {
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  const form = document.getElementById("filter");

  const apply = () => {
    const verdicts = new Set(all("[name=verdict]:checked", form).map((box) => box.value));
    const text = form.elements.text.value.trim().toLowerCase();
    const differ = form.elements.differ ? form.elements.differ.checked : false;
    const rows = document.querySelector("table") ? "tr.case" : "li.case";
    for (const item of all(".case")) {
      const words = item.dataset.verdict.split(" ");
      item.hidden = !(words.some((v) => verdicts.has(v)) && item.dataset.text.toLowerCase().includes(text) &&
        !(differ && item.dataset.differ === "false"));
    }
    for (const group of all(".group, tbody")) group.hidden = !group.querySelector(".case:not([hidden])");
    form.elements.shown.value = all(rows + ":not([hidden])").length + " shown";
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.open.addEventListener("click", () => all("details").forEach((d) => { d.open = true; }));
  form.elements.close.addEventListener("click", () => all("details").forEach((d) => { d.open = false; }));
  form.hidden = false;
  apply();

  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let e = target; e; e = e.parentElement) {
      if (e.tagName === "DETAILS") e.open = true;
      if (e.hidden) e.hidden = false;
    }
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((d) => { d.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((d) => { d.open = false; }));
})();
