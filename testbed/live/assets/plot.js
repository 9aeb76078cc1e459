// Plots of a few minutes: lines over time, fault windows as stripes behind them.
const NS = "http://www.w3.org/2000/svg";

export function svgElement(name, attributes = {}, text = "") {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= value * 0.999);
}

// series: [{class, points: [[time_ns, value or null], ...]}]; windows: [{start_ns, end_ns}]; no line across gaps
export function drawPlot(svg, series, windows, format, spanNs, gapNs) {
  const width = svg.clientWidth || 320, height = 120, foot = 16;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const times = series.flatMap((one) => one.points.map(([time]) => time));
  const end = Math.max(...times, 0), start = end - spanNs;
  const top = niceTop(Math.max(0, ...series.flatMap((one) => one.points.map(([, value]) => value ?? 0))));
  const x = (time) => ((time - start) / spanNs) * width;
  const y = (value) => (1 - value / top) * (height - foot - 14) + 14;
  const stripes = svgElement("pattern",
    { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  stripes.append(svgElement("line", { class: "stripe", x1: 0, y1: 0, x2: 0, y2: 6 }));
  const parts = [stripes];
  for (const { start_ns, end_ns, fault_id } of windows) {
    const left = Math.max(0, x(start_ns)), right = Math.min(width, x(end_ns ?? end));
    if (right < 0 || left > width) continue;
    const box = svgElement("rect",
      { class: "window", x: left, y: 14, width: Math.max(2, right - left), height: height - foot - 14 });
    box.append(svgElement("title", {}, fault_id));
    parts.push(box);
  }
  for (const value of [0, top]) {
    parts.push(svgElement("line", { class: "grid", x1: 0, x2: width, y1: y(value), y2: y(value) }));
  }
  parts.push(svgElement("text", { x: 2, y: 11 }, format(top)));
  parts.push(svgElement("text", { x: 2, y: height - 3 }, `${Math.round(spanNs / 1e9)} s ago`));
  parts.push(svgElement("text", { x: width - 2, y: height - 3, class: "end" }, "now"));
  for (const one of series) {
    let d = "", pen = "M", before = null;
    for (const [time, value] of one.points) {
      if (value === null || time < start || time - before > gapNs) pen = "M";
      before = time;
      if (value === null || time < start) continue;
      d += `${pen}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
    parts.push(svgElement("path", { class: `line ${one.class}`, d }));
  }
  svg.replaceChildren(...parts);
}
