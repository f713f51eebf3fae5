"use strict";
// Keys, focus, preloading and messages. What is shown comes from the server, by htmx.

const find = (selector, within = document) => within.querySelector(selector);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];
let busy = 0;
let ready = false;
let shownAt = 0; // when the image that is asked about was put on the page,
let seenAt = 0; // and when it could be seen; 0 is not yet

function say(text) {
  const box = find("#alert");
  box.textContent = text;
  box.hidden = !text;
}

// --- pictures -----------------------------------------------------------------------------

const ahead = new Map();

function preload(task) {
  for (const address of (task.dataset.ahead || "").split(" ").filter(Boolean)) {
    if (!ahead.has(address)) {
      const image = new Image();
      image.src = address;
      ahead.set(address, image); // kept, or the browser may drop it again
    }
  }
  while (ahead.size > 8) ahead.delete(ahead.keys().next().value);
}

function sharpen(image) {
  // Small images are enlarged; their pixels must not be smeared.
  const check = () => image.classList.toggle("tiny", image.naturalWidth > 0 && image.naturalWidth <= 160);
  if (image.complete) check();
  else image.addEventListener("load", check, { once: true });
}

async function explainPicture(image) {
  if (image.dataset.failed) return;
  image.dataset.failed = "yes";
  let reason = "";
  try {
    reason = (await (await fetch(image.src)).text()).trim();
  } catch {
    say("The server cannot be reached. Is steepest label still running?");
    return;
  }
  const tell = () => say(`Not shown: ${reason}`);
  tell();
  if (image.id === "photo" && !find("[data-again]")) {
    htmx.ajax("GET", "/task", { target: "#task" }).then(tell); // its success clears what was said
  } else {
    image.closest(".cell")?.remove();
  }
}

document.addEventListener("error", (event) => {
  if (event.target.tagName === "IMG" && event.target.closest(".photo")) explainPicture(event.target);
}, true);

// --- what was meant for another image ---------------------------------------------------------

// Nobody sees an image and decides in less: it is the second half of a double click or keystroke.
const LEAST_MS = 250;

function watch(image) {
  shownAt = performance.now();
  seenAt = 0;
  const note = () => {
    seenAt = performance.now();
  };
  if (image?.tagName !== "IMG" || image.complete) note();
  else for (const kind of ["load", "error"]) image.addEventListener(kind, note, { once: true });
}

function isTooEarly(path) {
  if (!find("#task [data-task]")) return false;
  if (path === "/skip") return performance.now() - shownAt < LEAST_MS;
  return path === "/answer" && (!seenAt || performance.now() - seenAt < LEAST_MS);
}

// --- after something new is shown ----------------------------------------------------------

function settle(root) {
  findAll(".photo img, .tile img", root).forEach(sharpen);
  const task = find("[data-task]", root);
  if (task) {
    preload(task);
    task.focus({ preventScroll: true });
  }
  countChecked();
}

function countChecked() {
  const send = find("[data-send] span");
  if (!send) return;
  const names = findAll("#answer input:checked").map((box) => box.value);
  send.textContent = names.length ? `Send ${names.join(", ")}` : "Send: none of them";
}

document.addEventListener("DOMContentLoaded", () => {
  ready = true; // htmx, whose script comes first, has prepared the forms
  settle(document);
  watch(find("#photo"));
  find(".cell")?.focus();
});
document.addEventListener("submit", (event) => {
  if (!ready) event.preventDefault();
}, true);
document.addEventListener("change", countChecked);
document.body.addEventListener("htmx:afterSettle", (event) => {
  const shown = event.detail.target;
  if (shown.id === "task") settle(shown);
  if (shown.classList.contains("cell")) moveOn();
});

// --- requests -------------------------------------------------------------------------------

// A request that hangs must not look like an answer that was taken.
const PATIENCE_MS = 8000;
let waiting = 0;

function wait() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    say("No word from the server yet: the answer may not be saved. Reload the page if this lasts.");
  }, PATIENCE_MS);
}

const isAnswer = (event) => event.detail.requestConfig?.verb === "post" || event.detail.target?.id === "task";
document.body.addEventListener("htmx:beforeRequest", (event) => {
  if (isTooEarly(event.detail.requestConfig.path)) event.preventDefault();
  else if (isAnswer(event)) {
    busy += 1;
    if (event.detail.requestConfig.verb === "post") wait();
  }
});
document.body.addEventListener("htmx:afterRequest", (event) => {
  if (!isAnswer(event)) return;
  busy = Math.max(0, busy - 1);
  if (!busy) clearTimeout(waiting);
  if (event.detail.successful) say("");
});
document.body.addEventListener("htmx:responseError", (event) => {
  const { status, responseText } = event.detail.xhr;
  const kept = event.detail.requestConfig.verb === "post" ? "Not saved: " : "";
  if (status === 403) say("No valid token: open the address that the command printed last.");
  else say(kept + (responseText.trim().slice(0, 400) || `error ${status}`));
});
document.body.addEventListener("refused", (event) => say(event.detail.value));
document.body.addEventListener("htmx:sendError", (event) => {
  if (event.detail.requestConfig.verb === "post") {
    say("Not saved: the server cannot be reached. Is steepest label still running?");
  }
});

// --- figures that are fetched again and again -------------------------------------------------

const latest = new Map();
let kept = { words: null, region: null, open: [], places: [] };

document.body.addEventListener("htmx:beforeSwap", (event) => {
  const { target, serverResponse } = event.detail;
  if (!["panel", "task"].includes(target.id) || !event.detail.shouldSwap) return;
  // The same again would take the focus, and be read out again, for nothing; an image may have
  // to be fetched again.
  if (latest.get(target.id) === serverResponse && !find("#photo", target)) event.detail.shouldSwap = false;
  latest.set(target.id, serverResponse);
  const here = target.contains(document.activeElement) ? document.activeElement : null;
  kept = {
    words: here && here.textContent,
    region: here && here.getAttribute("aria-label"),
    open: findAll("details", target).map((one) => one.open),
    places: findAll(".scroll", target).map((one) => one.scrollLeft),
  };
});
document.body.addEventListener("htmx:afterSwap", (event) => {
  const panel = event.detail.target;
  if (panel.id === "task") watch(find("#photo"));
  if (panel.id !== "panel") return;
  // Where somebody reads or is about to press Enter, nothing may be pulled away.
  findAll("details", panel).forEach((one, place) => {
    one.open = Boolean(kept.open[place]);
  });
  findAll(".scroll", panel).forEach((one, place) => {
    one.scrollLeft = kept.places[place] || 0;
  });
  if (kept.words === null) return;
  const isSame = (one) => one.textContent === kept.words
    || (kept.region && one.getAttribute("aria-label") === kept.region);
  const same = findAll("a, button, summary, .scroll", panel).find(isSame);
  (same || panel).focus({ preventScroll: true });
});

// --- the grid -------------------------------------------------------------------------------

const cells = () => findAll(".cell");

function currentCell() {
  return document.activeElement?.closest(".cell") || find(".cell:not(.done)") || find(".cell");
}

function moveOn() {
  const open = find(".cell:not(.done)");
  if (open) open.focus();
  else {
    find("#notice").textContent = "All answered. Press n for more.";
    find('[data-key="n"]')?.focus();
  }
}

function moveInGrid(key) {
  const all = cells();
  const here = all.indexOf(document.activeElement?.closest(".cell"));
  const top = all[0].offsetTop;
  const across = all.filter((cell) => cell.offsetTop === top).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[key];
  const there = all[Math.min(all.length - 1, Math.max(0, here + step))];
  there.focus();
  there.scrollIntoView({ block: "nearest" });
}

// --- a grid that is looked at keeps its images ---------------------------------------------------

let heldAt = performance.now();

async function hold() {
  const kept = 1000 * Number(find("#cells")?.dataset.kept || 0);
  if (!kept || performance.now() - heldAt < kept / 4) return;
  heldAt = performance.now();
  const open = findAll(".cell:not(.done)");
  const named = open.map((cell) => ["sample", find("[name=sample]", cell).value]);
  if (!named.length) return;
  const body = new URLSearchParams(named);
  const answer = await fetch("/hold", { method: "POST", body, headers: { "X-Steepest": "1" } }).catch(() => null);
  if (!answer?.ok) return;
  const lost = await answer.json();
  for (const cell of open.filter((one) => lost.includes(find("[name=sample]", one).value))) {
    if (!cell.isConnected) continue; // answered meanwhile
    cell.classList.add("done");
    cell.inert = true;
    find(".verdict", cell).textContent = "Given to others after a while without activity; press n for more.";
  }
}

for (const kind of ["keydown", "pointermove", "pointerdown", "scroll", "wheel"]) {
  document.addEventListener(kind, hold, { passive: true });
}

// --- keys -----------------------------------------------------------------------------------

function isTyping(element) {
  if (element.tagName === "INPUT") return !["checkbox", "radio", "button", "submit"].includes(element.type);
  return ["TEXTAREA", "SELECT"].includes(element.tagName);
}

function findKey(key) {
  const mark = `[data-key="${CSS.escape(key)}"]`;
  const cell = cells().length ? currentCell() : null;
  return (cell && find(mark, cell)) || find(`header ${mark}, #task ${mark}, main > .verbs ${mark}`);
}

document.addEventListener("keydown", (event) => {
  if (!ready || event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
  if (event.isComposing || isTyping(event.target)) return;
  const key = event.key;
  if (key.startsWith("Arrow") && cells().length) {
    event.preventDefault();
    moveInGrid(key);
    return;
  }
  // A focused button or link answers to Enter by itself.
  if (key === "Enter" && event.target.closest("a, button:not(.photo)")) return;
  if (key === "/" && find("#find")) {
    event.preventDefault();
    find("#find").focus();
    return;
  }
  let wanted = findKey(key.length === 1 ? key.toLowerCase() : key);
  // Some keyboards have the digits on these keys only together with shift.
  if (!wanted && !event.shiftKey && event.code.startsWith("Digit")) wanted = findKey(event.code.at(-1));
  if (wanted) {
    event.preventDefault();
    // What comes while an answer is under way was not meant for the image that follows.
    if (!event.repeat && !(busy && wanted.closest("main"))) wanted.click();
    return;
  }
  const page = find(`nav [data-go="${CSS.escape(key)}"]`);
  if (page && !event.shiftKey) page.click();
});

// --- dialogs --------------------------------------------------------------------------------

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-open]");
  if (opener) find(`#${opener.dataset.open}`).showModal();
});
