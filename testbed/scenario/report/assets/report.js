// Moves one time cursor through all panels and shows the values under it in the legends: by pointer, or by
// the arrow keys, Home, End and Escape on a panel that has the focus. Prints with everything unfolded.
"use strict";
(() => {
  const frame = JSON.parse(document.getElementById("frame").textContent);
  const panels = [...document.querySelectorAll("svg.panel:not(.plain)")];
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

  // As the page writes values elsewhere: three digits in the largest unit that the value reaches.
  const written = (value, units) => {
    if (value === null) return "-";
    if (value === 0) return "0";
    const [factor, name] = units.findLast(([least]) => Math.abs(value) >= least) ?? units[0];
    return `${Number((value / factor).toPrecision(3))} ${name}`.trim();
  };

  let shown = null; // index of the interval under the cursor

  const show = (time) => {
    const index = intervalAt(time);
    shown = index;
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
      const { panel, series } = output.dataset;
      output.textContent = written(frame.values[panel][+series][index], frame.units[panel]);
    }
  };

  const showInterval = (index) => {
    const at = Math.min(Math.max(index, 0), intervalCount - 1);
    show((frame.edges[at] + frame.edges[at + 1]) / 2);
  };

  const hide = () => {
    shown = null;
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
    panel.addEventListener("blur", hide);
    panel.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 10 : 1;
      const moves = {
        ArrowRight: () => showInterval(shown === null ? 0 : shown + step),
        ArrowLeft: () => showInterval(shown === null ? intervalCount - 1 : shown - step),
        Home: () => showInterval(0),
        End: () => showInterval(intervalCount - 1),
        Escape: hide,
      };
      if (!(event.key in moves)) return;
      event.preventDefault();
      moves[event.key]();
    });
  }

  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
})();
