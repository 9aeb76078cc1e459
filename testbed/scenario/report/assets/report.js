// Moves one time cursor through all panels and shows the values under it in the legends: by pointer, or by
// the arrow keys, Home, End and Escape on a panel that has the focus. Prints with everything unfolded.
"use strict";
// The report of one run, of which a page may have several.
const walk = (run) => {
  const frame = JSON.parse(run.querySelector("script.frame").textContent);
  const panels = [...run.querySelectorAll("svg.panel:not(.plain)")];
  const outputs = [...run.querySelectorAll("output[data-panel]")];
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

  // As testbed.shown writes values: three digits in the largest unit that the value reaches, once rounded.
  const written = (value, units) => {
    if (value === null) return "-";
    if (value === 0) return "0";
    const [factor, name] = units.findLast(([least]) => Math.abs(value) >= 0.9995 * least) ?? units[0];
    const number = value / factor;
    const text = Math.abs(number) < 999.5 ? Number(number.toPrecision(3)) : Math.round(number).toLocaleString("en");
    return `${text} ${name}`.trim();
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

};

for (const run of document.querySelectorAll("article.run:has(script.frame)")) walk(run);
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});
