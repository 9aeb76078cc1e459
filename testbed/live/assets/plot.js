// Plots of a few minutes: lines or dots over time, faults as stripes behind them, limits as dashed lines.
const NS = "http://www.w3.org/2000/svg";
const HEIGHT = 150, HEAD = 16, FOOT = 18, GUTTER = 66, CHARACTER = 6.6;
const STEPS = [1, 2, 2.5, 5, 10];

export function svgElement(name, attributes = {}, text = "") {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

// Round values from 0 to just above the highest, three to five of them.
export function ticks(highest) {
  if (!(highest > 0)) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(highest / 4));
  const step = STEPS.map((each) => each * power).find((each) => each * 4 >= highest * 0.999);
  return Array.from({ length: Math.ceil(highest / step - 1e-3) + 1 }, (_, index) => index * step);
}

function curve(points, x, y, gapNs) {
  let d = "", pen = "M", before = null;
  for (const [time, value] of points) {
    if (value === null || time - before > gapNs) pen = "M";
    before = time;
    if (value === null) continue;
    d += `${pen}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  }
  return d;
}

const dots = (points, x, y) =>
  points.map(([time, value]) => `M${x(time).toFixed(1)} ${y(value).toFixed(1)}h0`).join("");

// A name where each fault begins; faults whose names would cover one another share one.
function faultNames(places, width) {
  const labels = [];
  for (const [name, left] of places) {
    const last = labels.at(-1), x = Math.min(left, width - CHARACTER * (name.length + 3));
    if (last && x < last.x + CHARACTER * (last.name.length + 4)) last.more += 1;
    else labels.push({ name, x, more: 0 });
  }
  return labels.map(({ name, x, more }) =>
    svgElement("text", { class: "fault", x: Math.max(GUTTER, x), y: 11 }, more ? `${name} +${more}` : name));
}

// series: [{class, points: [[time_ns, value or null], ...], dots}]; windows: [{fault_id, start_ns, end_ns}];
// limits: [{value, name}], drawn where the data reach half of them; no line across gaps of more than gapNs
export function drawPlot(svg, series, { windows, format, spanNs, gapNs, endNs, limits = [] }) {
  const width = svg.clientWidth || 320, foot = HEIGHT - FOOT, start = endNs - spanNs;
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const seen = series.map((one) => ({ ...one, points: one.points.filter(([time]) => time >= start) }));
  const most = Math.max(0, ...seen.flatMap((one) => one.points.map(([, value]) => value ?? 0)));
  const near = limits.filter(({ value }) => value > 0 && value <= 2 * most);
  const marks = ticks(Math.max(most, ...near.map(({ value }) => value)));
  const x = (time) => GUTTER + ((time - start) / spanNs) * (width - GUTTER);
  const y = (value) => HEAD + (1 - value / marks.at(-1)) * (foot - HEAD);
  const stripes = svgElement("pattern",
    { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  stripes.append(svgElement("line", { class: "stripe", x1: 0, y1: 0, x2: 0, y2: 6 }));
  const parts = [stripes], names = new Map();
  for (const { start_ns, end_ns, fault_id } of windows) {
    const left = Math.max(GUTTER, x(start_ns)), right = Math.min(width, x(end_ns ?? endNs));
    if (right < GUTTER || left > width) continue;
    const box = svgElement("rect", { class: "window", x: left, y: HEAD, width: Math.max(2, right - left), height: foot - HEAD });
    box.append(svgElement("title", {}, fault_id));
    parts.push(box);
    if (!names.has(fault_id)) names.set(fault_id, left);
  }
  parts.push(...faultNames(names, width));
  for (const value of marks) {
    parts.push(svgElement("line", { class: "grid", x1: GUTTER, x2: width, y1: y(value), y2: y(value) }));
    parts.push(svgElement("text", { x: GUTTER - 6, y: y(value) + 4, class: "end" }, value ? format(value) : "0"));
  }
  for (const { value, name } of near) {
    parts.push(svgElement("line", { class: "limit", x1: GUTTER, x2: width, y1: y(value), y2: y(value) }));
    parts.push(svgElement("text", { x: GUTTER + 4, y: y(value) - 3 }, name));
  }
  const every = [5, 10, 30].find((each) => each * 4e9 >= spanNs);
  for (let seconds = every; seconds * 1e9 <= spanNs; seconds += every) {
    const at = x(endNs - seconds * 1e9);
    parts.push(svgElement("line", { class: "grid", x1: at, x2: at, y1: foot, y2: foot + 4 }));
    parts.push(svgElement("text", { x: at, y: HEIGHT - 3, class: at > GUTTER + 20 ? "middle" : "" }, `−${seconds} s`));
  }
  parts.push(svgElement("text", { x: width - 2, y: HEIGHT - 3, class: "end" }, "now"));
  for (const one of seen) {
    const d = one.dots ? dots(one.points, x, y) : curve(one.points, x, y, gapNs);
    parts.push(svgElement("path", { class: `${one.dots ? "dots" : "line"} ${one.class}`, d }));
  }
  svg.replaceChildren(...parts);
}
