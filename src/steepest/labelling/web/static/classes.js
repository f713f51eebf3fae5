"use strict";
// Find a class by its name: letters narrow the choice down, Enter takes what is marked.

(() => {
  let cell = null; // of the grid: the one that the keys were about before the letters

  document.addEventListener("focusin", (event) => {
    const entered = event.target.closest(".cell");
    if (entered) cell = entered;
  });

  function scope() {
    if (!cells().length) return find("#answer");
    return cell?.isConnected ? cell : currentCell();
  }

  const options = () => findAll(".choice, .chip:not(.main, .faint)", scope());
  const nameOf = (option) => (option.value ?? find("input", option).value).toLowerCase();

  function look(text) {
    // The whole name goes before its beginning, and that before any other part of it.
    const wanted = text.trim().toLowerCase();
    const found = options().filter((option) => nameOf(option).includes(wanted));
    const first = !wanted ? null : found.find((option) => nameOf(option) === wanted)
      || found.find((option) => nameOf(option).startsWith(wanted)) || found[0];
    return { found, first };
  }

  function narrow(text) {
    const { found, first } = look(text);
    for (const option of options()) {
      option.hidden = !found.includes(option);
      option.classList.toggle("aimed", option === first);
    }
    first?.scrollIntoView({ block: "nearest" });
    if (!text.trim()) find("#notice").textContent = "";
    else if (!first) find("#notice").textContent = "No class has these letters.";
    else find("#notice").textContent = `${found.length} found, Enter takes ${first.value ?? find("input", first).value}`;
  }

  function leave(box) {
    box.value = "";
    narrow("");
    (cells().length ? scope() : find("[data-task]")).focus({ preventScroll: true });
  }

  document.addEventListener("keydown", (event) => {
    const box = event.target;
    // While letters are being composed, Enter belongs to the writing system.
    if (box.id !== "find" || event.isComposing) return;
    if (event.key === "Escape") leave(box);
    if (event.key !== "Enter") return;
    event.preventDefault();
    const { first } = look(box.value);
    if (!first || event.repeat || busy) return;
    leave(box);
    first.click();
  });
  document.addEventListener("input", (event) => {
    if (event.target.id === "find") narrow(event.target.value);
  });
})();
