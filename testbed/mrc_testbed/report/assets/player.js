// A run in the drawing of its fabric: data of mrc_testbed/scenario/report/player.py, a byte for each link and frame.
"use strict";
for (const script of document.querySelectorAll("script.player")) {
  const { links, faults, frames, levels } = JSON.parse(script.textContent), bytes = atob(levels), card = script.closest(".fabric-card");
  const [controls, words, button, slider, chosen] = [".player", ".words", "button", "input", "select"].map((each) => card.querySelector(each));
  const places = new Map([...card.querySelectorAll("[data-name]")].map((each) => [each.dataset.name, each]));
  const pause = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 120;
  let timer;
  const show = () => {
    const at = slider.valueAsNumber, [text, acting] = frames[at], hit = new Set(acting.flatMap((fault) => faults[fault]));
    card.classList.add("playing");
    links.forEach((name, index) => {
      const level = bytes.charCodeAt(at * links.length + index), { style, classList } = places.get(name);
      style.setProperty("--use", (level >> 4) / 15);
      style.setProperty("--queue", (level & 15) / 15);
      classList.toggle("aside", !name.includes(chosen?.value ?? ""));
    });
    for (const [name, place] of places) place.classList.toggle("hit", hit.has(name));
    words.textContent = text;
    slider.setAttribute("aria-valuetext", text);
  };
  const stop = () => { timer = clearInterval(timer); button.textContent = "Play"; };
  const step = () => { slider.stepUp(); show(); if (slider.value === slider.max) stop(); };
  const press = () => {
    if (timer) return stop();
    if (slider.value === slider.max) slider.value = 0;
    button.textContent = "Pause";
    timer = setInterval(step, pause);
    show();
  };
  button.addEventListener("click", press);
  slider.addEventListener("input", () => { stop(); show(); });
  slider.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); press(); } });
  chosen?.addEventListener("change", show);
  controls.hidden = false;
}
