// Moves one time cursor through all panels and shows the values under it in the legends.
"use strict";
(() => {
  const frame = JSON.parse(document.getElementById("frame").textContent);
  const panels = [...document.querySelectorAll("svg.panel")];
  const clock = document.getElementById("cursor-time");
  if (!frame.times.length) return;

  const nearest = (time) => {
    let low = 0, high = frame.times.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (frame.times[middle] < time) low = middle; else high = middle;
    }
    return time - frame.times[low] < frame.times[high] - time ? low : high;
  };

  const show = (index) => {
    const share = (frame.times[index] - frame.low) / (frame.high - frame.low);
    const x = frame.left + share * (frame.right - frame.left);
    for (const panel of panels) {
      const cursor = panel.querySelector(".cursor");
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.style.visibility = "visible";
    }
    for (const output of document.querySelectorAll("output[data-panel]")) {
      output.textContent = frame.values[output.dataset.panel][+output.dataset.series][index];
    }
    clock.textContent = `at ${(frame.times[index] / 1e9).toFixed(2)} s`;
  };

  const hide = () => {
    for (const panel of panels) panel.querySelector(".cursor").style.visibility = "hidden";
    for (const output of document.querySelectorAll("output[data-panel]")) output.textContent = "";
    clock.textContent = "";
  };

  for (const panel of panels) {
    panel.addEventListener("pointermove", (event) => {
      const box = panel.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * frame.width;
      const share = (x - frame.left) / (frame.right - frame.left);
      if (share < 0 || share > 1) hide(); else show(nearest(frame.low + share * (frame.high - frame.low)));
    });
    panel.addEventListener("pointerleave", hide);
  }
})();
