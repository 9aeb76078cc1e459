// The live page: server-sent updates in, faults out.
import { Fabric } from "./fabric.js";
import { drawPlot, svgElement } from "./plot.js";

const SPAN_NS = 120e9, KEPT_NS = 300e9, OLD_INTERVALS = 3;
const byId = (id) => document.getElementById(id);
const token = location.hash.slice(1);
const state = { points: [], paused: false, update: null, picked: [], link: "" };

function rate(bps) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (bps >= size * 0.9995) return `${(bps / size).toPrecision(3)} ${unit}bit/s`;
  }
  return `${Math.round(bps)} bit/s`;
}

function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (ns >= size * 0.9995) return `${(ns / size).toPrecision(3)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

const count = (number) => number.toLocaleString("en");

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function describeLink(link) {
  const faults = link.faults.length ? `; faults: ${link.faults.join(", ")}` : "";
  const lost = link.dropped ? `; ${count(link.dropped)} frames lost` : "";
  const waits = link.queue_bytes ? `; ${count(link.queue_bytes)} bytes wait` : "";
  const held = link.held_ratio >= 0.005 ? `; held ${Math.round(100 * link.held_ratio)} % of the time` : "";
  const sent = `${rate(link.up_bps)} up, ${rate(link.down_bps)} down`;
  return `${link.name}: ${link.state}, ${sent}${waits}${held}${lost}${faults}`;
}

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "X-Mrc-Token": token },
  };
  const answer = await fetch(path, options);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

async function attempt(work) {
  try {
    byId("answer").className = "";
    byId("answer").textContent = await work();
  } catch (error) {
    byId("answer").className = "bad";
    byId("answer").textContent = error.message;
  }
}

function chooseLink(name) {
  state.link = name;
  byId("link").value = name;
  fabric.choose(name);
  showLinkFacts();
}

function showLinkFacts() {
  const link = state.update?.snapshot?.links.find((one) => one.name === state.link);
  byId("link-facts").textContent = link ? describeLink(link) : "";
}

function pickHost(name) {
  state.picked = [...state.picked.filter((one) => one !== name), name].slice(-2);
  fabric.pick(state.picked);
  if (state.picked.length === 2) {
    [byId("from").value, byId("to").value] = state.picked;
    showPaths();
  }
}

function hidePaths() {
  state.picked = [];
  fabric.pick([]);
  fabric.trace([]);
  byId("paths").replaceChildren();
}

async function showPaths() {
  await attempt(async () => {
    const ends = { from: byId("from").value, to: byId("to").value };
    const found = await ask(`/api/paths?${new URLSearchParams(ends)}`);
    state.picked = [found.from, found.to];
    fabric.pick(state.picked);
    fabric.trace(found.paths.flatMap((path) => path.links));
    byId("paths").replaceChildren(...found.paths.map((path) => {
      const item = element("li");
      const by = path.t1 ? ` by ${path.t1}` : " within its T0";
      const button = element("button", `plane ${path.plane}${by}`, { type: "button" });
      button.addEventListener("click", () => fabric.trace(path.links));
      item.append(button, ` ${path.hops.map((hop) => hop.node).join(" → ")}`);
      return item;
    }));
    return found.left_out ? `${found.left_out} paths more are not shown` : "";
  });
}

const fabric = new Fabric(byId("fabric"), chooseLink, pickHost);

async function loadFabric() {
  const found = await ask("/api/fabric");
  document.title = `${found.lab} – mrc-testbed`;
  byId("lab").textContent = found.lab;
  byId("headline").textContent = found.headline;
  fabric.draw(found.svg);
  for (const id of ["from", "to"]) {
    byId(id).replaceChildren(...found.hosts.map((name) => element("option", name)));
  }
  byId("to").value = found.hosts.at(-1);
  byId("link").replaceChildren(...found.links.map((name) => element("option", name)));
  chooseLink(found.links.includes(state.link) ? state.link : found.links.at(-1));
  state.intervalNs = found.interval_ns;
}

function drawLegend() {
  const kinds = [["idle", { "data-load": 0 }], ["some load", { "data-load": 1 }], ["half its rate", { "data-load": 3 }],
    ["full", { "data-load": 4 }], ["✕ down", { "data-state": "down" }], ["! a fault acts", { "data-state": "impaired" }]];
  byId("legend").replaceChildren(...kinds.map(([text, attributes]) => {
    const item = element("span"), sample = svgElement("svg", { viewBox: "0 0 42 12", "aria-hidden": "true" });
    sample.append(svgElement("path", { class: "link", d: "M1 6H41", fill: "none", ...attributes }));
    item.append(sample, text);
    return item;
  }));
}

function row(cells) {
  const made = element("tr");
  made.append(...cells.map((cell) => (cell instanceof Node ? cell : element("td", cell))));
  return made;
}

const number = (text, bad = false) => element("td", text, { class: bad ? "n bad" : "n" });

function showHosts(hosts) {
  const most = Math.max(1, ...hosts.map((host) => host.goodput_bps));
  byId("hosts").replaceChildren(...hosts.map((host) => {
    const bar = element("td", "", { class: "bar" }), fill = element("i");
    fill.style.width = `${(100 * host.goodput_bps) / most}%`;
    bar.append(fill);
    return row([host.name, number(rate(host.goodput_bps)), bar, number(rate(host.sent_bps)),
      number(count(host.retransmits), host.retransmits > 0)]);
  }));
}

function showPlanes(planes) {
  byId("planes").replaceChildren(...planes.map(({ plane, ev_states: evs, tx_bps, rtt }) => row([
    String(plane), number(count(evs.GOOD)), number(count(evs.SKIP)),
    number(count(evs.ASSUMED_BAD), evs.ASSUMED_BAD > 0), number(count(evs.DENIED), evs.DENIED > 0),
    number(rate(tx_bps)), number(duration(rtt?.p50_ns)), number(duration(rtt?.p99_ns))])));
}

function showFaults(faults) {
  const shown = faults.map((fault) => {
    const item = element("li");
    const left = fault.left_ns === null ? "until cleared" : `${duration(fault.left_ns)} left`;
    const places = fault.places.slice(0, 3).join(", ") + (fault.places.length > 3 ? " …" : "");
    const owner = fault.is_interactive ? "" : ", of a run";
    item.append(element("b", fault.id), ` ${fault.kind} ${fault.detail} on ${places}, ${left}${owner} `);
    const button = element("button", "Clear", { type: "button", "aria-label": `clear ${fault.id}` });
    button.addEventListener("click", () => clear({ id: fault.id }));
    item.append(button);
    return item;
  });
  byId("faults").replaceChildren(...(shown.length ? shown : [element("li", "none", { class: "quiet" })]));
}

function showPlots(windows) {
  const points = state.points, gapNs = 3 * state.intervalNs;
  drawPlot(byId("goodput-plot"), [{ class: "", points: points.map((p) => [p.time_ns, p.goodput_bps]) }],
    windows, rate, SPAN_NS, gapNs);
  drawPlot(byId("rtt-plot"), [
    { class: "", points: points.map((p) => [p.time_ns, p.p50_ns]) },
    { class: "second", points: points.map((p) => [p.time_ns, p.p99_ns]) },
  ], windows, duration, SPAN_NS, gapNs);
}

function showTail(lines) {
  byId("tail").replaceChildren(...lines.toReversed().map((line) => {
    const item = element("li");
    item.append(element("time", line.clock), line.text);
    return item;
  }));
}

function show(update) {
  byId("problem").hidden = update.problem === null;
  byId("problem").textContent = update.problem ?? "";
  showTail(update.tail);
  const now = update.snapshot;
  if (now === null) return;
  byId("goodput").textContent = rate(now.goodput_bps);
  byId("p50").textContent = duration(now.rtt?.p50_ns);
  byId("p99").textContent = duration(now.rtt?.p99_ns);
  byId("p999").textContent = duration(now.rtt?.p999_ns);
  byId("retransmits").textContent = count(now.retransmits);
  byId("dropped").textContent = count(Object.values(now.dropped).reduce((sum, one) => sum + one, 0));
  byId("dropped").title = Object.entries(now.dropped).map(([why, times]) => `${why}: ${times}`).join(", ");
  fabric.show(now.links, describeLink);
  showLinkFacts();
  showHosts(now.hosts);
  showPlanes(now.planes);
  // A list that is rebuilt under the keyboard's focus would lose it.
  if (!byId("faults").contains(document.activeElement)) showFaults(now.faults);
  showPlots(update.windows);
}

// The age of the figures: the server says it with each update, and it grows until the next.
function showAge() {
  const { age_ns: age } = state.update ?? {};
  const now = age === null || age === undefined ? 0 : age + 1e6 * (performance.now() - state.taken);
  byId("age").hidden = now <= OLD_INTERVALS * state.intervalNs;
  byId("age").textContent = byId("age").hidden ? "" : `The figures are ${Math.round(now / 1e9)} s old.`;
}

function take(update) {
  state.taken = performance.now();
  state.points.push(...update.points.filter((point) => point.time_ns > (state.points.at(-1)?.time_ns ?? -1)));
  while (state.points.length && state.points[0].time_ns < state.points.at(-1).time_ns - KEPT_NS) state.points.shift();
  const wasAway = state.update?.problem;
  state.update = update;
  if (wasAway && update.problem === null) loadFabric();
  if (!state.paused) show(update);
  showAge();
}

async function clear(what) {
  await attempt(async () => {
    const { ids } = await ask("/api/clear", what);
    return ids.length ? `cleared ${ids.join(", ")}` : "no fault by hand was active";
  });
  document.activeElement?.blur();
}

byId("act").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    const { id } = await ask("/api/fault",
      { kind: byId("kind").value, link: byId("link").value, seconds: Number(byId("seconds").value) });
    return `fault ${id} added`;
  });
});
byId("pair").addEventListener("submit", (event) => { event.preventDefault(); showPaths(); });
byId("unmark").addEventListener("click", hidePaths);
byId("clear").addEventListener("click", () => clear({}));
byId("link").addEventListener("change", () => chooseLink(byId("link").value));
byId("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  byId("pause").textContent = state.paused ? "Go on" : "Pause";
  byId("pause").setAttribute("aria-pressed", String(state.paused));
  if (!state.paused && state.update) show(state.update);
});

drawLegend();
await loadFabric();
if (!token) byId("answer").textContent = "only looking: the address lacks the token that `serve` has printed";
const events = new EventSource("/api/events");
events.onopen = () => { byId("status").textContent = "live"; state.points = []; };
events.onerror = () => { byId("status").textContent = "the server does not answer; trying again"; };
setInterval(showAge, 500);
events.onmessage = (event) => take(JSON.parse(event.data));
