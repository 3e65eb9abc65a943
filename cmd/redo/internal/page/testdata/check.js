// Looks at a page in frames, in each width and colour scheme, and writes what it finds wrong for the test to read.
"use strict";
const broken = [];

const visible = (e) => e.getClientRects().length > 0;

const channels = (color) => (color.match(/[\d.]+/g) || []).map(Number);

const luminance = (color) => {
  const [r, g, b] = channels(color).slice(0, 3).map((c) => {
    c /= 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};

const ground = (win, e) => {
  for (; e; e = e.parentElement) {
    const color = win.getComputedStyle(e).backgroundColor, alpha = channels(color)[3];
    if (alpha === undefined || alpha === 1) return color;
  }
  return "rgb(255, 255, 255)";
};

const colors = (win, say) => {
  const doc = win.document;
  for (const e of doc.body.querySelectorAll("*")) {
    if (!visible(e)) continue;
    const style = win.getComputedStyle(e), behind = ground(win, e);
    const text = Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.data.trim());
    if (text && e.namespaceURI.endsWith("xhtml") && contrast(style.color, behind) < 4.5) {
      say("text " + style.color + " on " + behind + " in " + e.tagName + "." + e.className);
    }
    if (e.matches("svg.mark") && contrast(style.fill, behind) < 3) say("mark " + style.fill + " on " + behind);
  }
  return ground(win, doc.body);
};

const overflow = (win, say) => {
  const root = win.document.documentElement;
  if (root.scrollWidth > root.clientWidth || win.document.body.scrollWidth > root.clientWidth) {
    say("it scrolls sideways: " + root.scrollWidth + " in " + root.clientWidth);
  }
};

const inspect = async (frame, width, scheme, want) => {
  const win = frame.contentWindow, doc = win.document;
  const say = (what) => broken.push(scheme + " " + width + ": " + what);
  const all = (selector) => Array.from(doc.querySelectorAll(selector));
  const same = (what, got, expected) => { if (got !== expected) say(what + ": " + got + ", want " + expected); };

  same("width", win.innerWidth, width);
  overflow(win, say);
  for (const e of win.performance.getEntriesByType("resource")) say("it asked for " + e.name);
  same("dark", luminance(colors(win, say)) < 0.2, scheme === "dark");

  same("findings", all(".finding").length, want.Findings);
  same("diagrams of findings", all(".finding .diagram").length, want.Diagrams);
  for (const d of all(".finding .diagram")) {
    if (!d.querySelector(".row.send .arrow") || !d.querySelector(".row.response .arrow, .row.broken .arrow")) say("a diagram has no arrows");
  }
  same("columns", all("thead th[scope=col]").length, want.Columns);
  same("rows", all("tr.case").length, want.Rows);
  for (const tr of all("tr.case")) same("cells of a row", tr.cells.length, want.Columns);
  same("cases listed", all("li.case").length, want.Listed);
  same("landmarks", all("main, body > header, body > footer").length, 3);
  same("headings of the first level", all("h1").length, 1);

  const form = doc.getElementById("filter");
  if (want.Scripted) {
    same("filter is hidden", form.hidden, false);
    const items = () => all(".case").filter((e) => !e.hidden);
    const boxes = Array.from(form.querySelectorAll("[name=verdict]"));
    const set = (box, value) => {
      if (box.checked !== value) box.click();
    };
    const whole = items().length;
    same("cases shown at first", whole, all(".case").length);
    for (const box of boxes) set(box, box.value === "fail");
    const failed = items();
    same("cases shown that failed", failed.length, all(".case").filter((e) => e.dataset.verdict.split(" ").includes("fail")).length);
    if (failed.length === 0 || failed.length === whole) say("the filter does not tell verdicts apart");
    for (const box of boxes) set(box, true);
    const type = (text) => {
      form.elements.text.value = text;
      form.elements.text.dispatchEvent(new win.Event("input", { bubbles: true }));
    };
    type(want.Search);
    same("cases found by name", items().length, all(".case").filter((e) => e.dataset.text.includes(want.Search)).length);
    if (items().length === 0 || items().length === whole) say("the filter does not tell names apart");
    type("");
    if (want.Columns) {
      form.elements.differ.click();
      same("rows that differ", all("tr.case:not([hidden])").length, want.Differ);
      form.elements.differ.click();
    }
    same("cases shown at last", items().length, whole);

    const link = want.Link;
    win.location.hash = "#" + link;
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (!visible(doc.getElementById(link))) say("a link to " + link + " does not open it");
    form.elements.open.click();
  } else {
    same("filter is hidden", form.hidden, true);
    for (const d of all("details")) d.open = true;
  }
  same("closed details", all("details:not([open])").length, 0);
  same("cases that are not to be seen", all(".case").filter((e) => !visible(e)).length, 0);
  overflow(win, say);
  colors(win, say);
};

onload = async () => {
  for (const frame of document.querySelectorAll("iframe")) {
    try {
      await inspect(frame, Number(frame.width), frame.style.colorScheme, want);
    } catch (error) {
      broken.push(String(error));
    }
  }
  document.getElementById("result").textContent = btoa(unescape(encodeURIComponent(JSON.stringify({ done: true, broken }))));
};
