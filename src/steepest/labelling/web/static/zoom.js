"use strict";
// A closer look: the largest picture there is, by keys, wheel or fingers.

(() => {
  const dialog = document.querySelector("#zoom");
  if (!dialog) return;
  const room = dialog.querySelector(".zoom-room");
  const image = dialog.querySelector("img");
  const shown = dialog.querySelector("output");
  let scale = 1;
  let held = null;

  function fit() {
    const inside = room.getBoundingClientRect();
    return Math.min(inside.width / image.naturalWidth, inside.height / image.naturalHeight);
  }

  function resize(factor, x = 0.5, y = 0.5) {
    if (!image.naturalWidth) return;
    const before = scale;
    scale = Math.min(32, Math.max(1, scale * factor));
    const width = image.naturalWidth * fit() * scale;
    image.style.width = `${width}px`;
    image.classList.toggle("tiny", width / image.naturalWidth >= 3);
    shown.textContent = `${Math.round((100 * width) / image.naturalWidth)} %`;
    const grown = scale / before;
    room.scrollLeft = (room.scrollLeft + x * room.clientWidth) * grown - x * room.clientWidth;
    room.scrollTop = (room.scrollTop + y * room.clientHeight) * grown - y * room.clientHeight;
  }

  function begin(opener) {
    scale = 1;
    image.style.width = "";
    image.alt = opener.querySelector("img").alt;
    image.src = opener.dataset.zoomFrom;
    dialog.showModal();
    room.focus();
    if (image.complete) resize(1);
  }

  image.addEventListener("load", () => resize(1));
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-zoom-from]");
    if (opener) begin(opener);
    const verb = event.target.closest("[data-zoom]")?.dataset.zoom;
    if (verb === "in") resize(1.5);
    if (verb === "out") resize(1 / 1.5);
    if (verb === "end") dialog.close();
  });
  dialog.addEventListener("keydown", (event) => {
    const step = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 1 / 32 }[event.key];
    if (step) resize(step);
    if (event.key === "z") dialog.close();
  });
  room.addEventListener("wheel", (event) => {
    event.preventDefault();
    const inside = room.getBoundingClientRect();
    const x = (event.clientX - inside.left) / inside.width;
    const y = (event.clientY - inside.top) / inside.height;
    resize(event.deltaY < 0 ? 1.2 : 1 / 1.2, x, y);
  }, { passive: false });
  room.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse") return; // fingers scroll by themselves
    held = { x: event.clientX, y: event.clientY, left: room.scrollLeft, top: room.scrollTop, moved: false };
  });
  room.addEventListener("pointermove", (event) => {
    if (!held) return;
    held.moved ||= Math.hypot(event.clientX - held.x, event.clientY - held.y) > 4;
    room.scrollLeft = held.left - (event.clientX - held.x);
    room.scrollTop = held.top - (event.clientY - held.y);
  });
  room.addEventListener("pointerup", () => {
    if (held && !held.moved) dialog.close();
    held = null;
  });
  image.addEventListener("dragstart", (event) => event.preventDefault());
})();
