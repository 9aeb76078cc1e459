// Moves one time cursor through all panels and shows the values under it in the legends.
"use strict";
(() => {
  const frame = JSON.parse(document.getElementById("frame").textContent);
  const panels = [...document.querySelectorAll("svg.panel")];
  const outputs = [...document.querySelectorAll("output[data-panel]")];
  const intervalCount = frame.edges.length - 1;

  // Index of the interval that holds a time; edges ascend.
  const intervalAt = (time) => {
    let low = 0, high = intervalCount;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (frame.edges[middle] <= time) low = middle; else high = middle;
    }
    return low;
  };

  const show = (time) => {
    const index = intervalAt(time);
    const x = frame.left + (time - frame.low) / (frame.high - frame.low) * (frame.right - frame.left);
    for (const panel of panels) {
      const cursor = panel.querySelector(".cursor");
      const label = panel.querySelector(".cursor-time");
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      label.setAttribute("x", x);
      label.textContent = `${(time / 1e9).toFixed(2)} s`;
      panel.classList.add("has-cursor");
    }
    for (const output of outputs) {
      output.textContent = frame.values[output.dataset.panel][+output.dataset.series][index];
    }
  };

  const hide = () => {
    for (const panel of panels) panel.classList.remove("has-cursor");
    for (const output of outputs) output.textContent = "";
  };

  for (const panel of panels) {
    panel.addEventListener("pointermove", (event) => {
      const box = panel.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * frame.width;
      const share = (x - frame.left) / (frame.right - frame.left);
      const time = frame.low + share * (frame.high - frame.low);
      if (time < frame.edges[0] || time > frame.edges[intervalCount]) hide(); else show(time);
    });
    panel.addEventListener("pointerleave", hide);
  }
})();
