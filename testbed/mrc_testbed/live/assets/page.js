// The live page: server-sent updates in, faults out.
import { Fabric, svgElement } from "./fabric.js";
import { count, duration, frequency, RATE, rate, share, TIME } from "./number.js";

const SPAN_NS = 120e9, SPAN_MIN_NS = 15e9, KEPT_NS = 300e9, OLD_INTERVALS = 3, STEPS_KEPT = 4000;
const KINDS = {
  link: { "link-down": "cut it", "link-flap": "flap it, 300 ms every second", loss: "lose 5 % of its packets", drain: "drain it" },
  switch: { blackhole: "gray: it forwards nothing", "switch-reboot": "reboot it", drain: "drain its links" },
  host: { "host-pause": "pause its processes" },
  plane: { drain: "drain it", "plane-down": "take it down" },
};
const EVENT_KINDS = { fault: "faults", link: "links", ev: "EVs", lab: "lab" };
const byId = (id) => document.getElementById(id);
const token = location.hash.slice(1);
const state = { points: [], steps: new Map(), paused: false, update: null, picked: [], target: null, hidden: new Set(), limits: {} };

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function describeLink(link) {
  const faults = link.faults.length ? `; faults: ${link.faults.join(", ")}` : "";
  const dropped = link.dropped ? `; ${count(link.dropped)} frames dropped` : "";
  const waits = link.queue_bytes ? `; ${count(link.queue_bytes)} bytes wait` : "";
  const paused = link.held_ratio >= 0.005 ? `; paused ${share(link.held_ratio)} of the time` : "";
  const sent = `${rate(link.up_bps)} up, ${rate(link.down_bps)} down`;
  return `${link.name}: ${link.state}, ${sent}${waits}${paused}${dropped}${faults}`;
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

// kind: link, node or plane; null chooses nothing
function choose(kind, name) {
  const found = kind && state.targets.has(`${kind} ${name}`);
  state.target = found ? { kind, name } : null;
  byId("target").value = found ? `${kind} ${name}` : "";
  const ways = found ? KINDS[state.targets.get(`${kind} ${name}`)] : {};
  byId("kind").replaceChildren(...Object.entries(ways).map(([value, text]) => element("option", text, { value })));
  fabric.choose(kind, name);
  showTargetFacts();
}

function onDrawing(kind, name) {
  choose(kind, name);
  if (state.targets.get(`${kind} ${name}`) === "host") pickHost(name);
}

function showTargetFacts() {
  const { kind, name } = state.target ?? {}, now = state.update?.snapshot;
  if (!kind || !now) return;
  const link = kind === "link" && now.links.find((one) => one.name === name);
  const faults = now.broken_nodes.find((one) => one.name === name)?.faults ?? [];
  const place = kind === "plane" ? `plane ${name}` : name;
  byId("target-facts").textContent = link ? describeLink(link) : `${place}${faults.length ? `; faults: ${faults.join(", ")}` : ""}`;
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
      const top = path.t2 ?? path.t1, by = top ? ` by ${top}` : " within its T0";
      const button = element("button", `plane ${path.plane}${by}`, { type: "button" });
      button.addEventListener("click", () => fabric.trace(path.links));
      item.append(button, ` ${path.hops.map((hop) => hop.node).join(" → ")}`);
      return item;
    }));
    return found.left_out ? `${found.left_out} paths more are not shown` : "";
  });
}

const fabric = new Fabric(byId("fabric"), onDrawing);

async function loadFabric() {
  const found = await ask("/api/fabric");
  document.title = `${found.lab} – mrc-testbed`;
  byId("lab").textContent = found.lab;
  byId("headline").textContent = found.headline;
  fabric.draw(found.svg);
  drawLegend(found.line_rate_bps > 0);
  for (const id of ["from", "to"]) {
    byId(id).replaceChildren(...found.hosts.map((name) => element("option", name)));
  }
  byId("to").value = found.hosts.at(-1);
  state.targets = new Map([
    ...found.planes.map(({ plane }) => [`plane ${plane}`, "plane"]),
    ...found.switches.map((name) => [`node ${name}`, "switch"]),
    ...found.hosts.map((name) => [`node ${name}`, "host"]),
    ...found.links.map((name) => [`link ${name}`, "link"]),
  ]);
  const groups = Object.entries({ plane: "planes", switch: "switches", host: "hosts", link: "links" }).map(([type, label]) => {
    const group = element("optgroup", "", { label });
    const own = [...state.targets].filter(([, one]) => one === type).map(([value]) => value);
    group.append(...own.map((value) => element("option", type === "plane" ? value : value.split(" ")[1], { value })));
    return group;
  });
  byId("target").replaceChildren(element("option", "choose …", { value: "" }), ...groups);
  choose(state.target?.kind ?? null, state.target?.name);
  state.intervalNs = found.interval_ns;
  state.limits = { goodput: found.line_rate_bps, rtt: found.idle_rtt_ns };
  byId("limits").textContent = found.line_rate_bps
    ? `Shaded: a fault. Line rate of all hosts ${rate(found.line_rate_bps)}, idle RTT ${duration(found.idle_rtt_ns)}.`
    : "Shaded: a fault. Ports have no rate.";
}

function drawLegend(hasRates) {
  const [half, most] = hasRates ? ["half its rate", "full"] : ["half of the busiest link", "as the busiest link"];
  const kinds = [["idle", { "data-load": 0 }], ["some load", { "data-load": 1 }], [half, { "data-load": 3 }],
    [most, { "data-load": 4 }], ["✕ down", { "data-state": "down" }], ["! has a fault; n×: outages so far", { "data-state": "impaired" }]];
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
    return row([[host.name, ...host.profiles].join(", "), number(rate(host.goodput_bps)), bar, number(rate(host.sent_bps)),
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
    const outages = fault.outages ? `, ${fault.outages} outages` : "";
    item.append(element("b", fault.id), ` ${fault.kind} ${fault.detail} on ${places}${outages}, ${left}${owner} `);
    const button = element("button", "Clear", { type: "button", "aria-label": `clear ${fault.id}` });
    button.addEventListener("click", () => clear({ id: fault.id }));
    item.append(button);
    return item;
  });
  byId("faults").replaceChildren(...(shown.length ? shown : [element("li", "none", { class: "quiet" })]));
}

const plots = new mrcCharts.Group();
const ago = (text) => (Number(text) ? `${text.replace("-", "−")} s` : "now");

// Curves of [time, value], a gap where no reading came in time.
function curve(name, points) {
  const whole = points.flatMap(([time, value], at) =>
    (at && time - points[at - 1][0] > 3 * state.intervalNs ? [[points[at - 1][0] + 1, null], [time, value]] : [[time, value]]));
  return { name, x: whole.map(([time]) => time), y: whole.map(([, value]) => value ?? null) };
}

// All plots share the time axis; it begins with the first reading, two minutes ago at most.
function plot(place, form, units, series, windows, limit = null) {
  const endNs = state.points.at(-1)?.time_ns ?? 0, beginNs = state.points[0]?.time_ns ?? 0;
  const startNs = endNs - Math.min(SPAN_NS, Math.max(SPAN_MIN_NS, endNs - beginNs));
  const seen = series.map(({ name, x, y }) => {
    const first = x.findIndex((time) => time >= startNs);
    return { name, x: first < 0 ? [] : x.slice(first), y: first < 0 ? [] : y.slice(first) };
  });
  const names = [...new Set(windows.map((one) => one.fault_id))];
  const bands = names.map((name) => [name, windows.filter((one) => one.fault_id === name).map((one) => [one.start_ns, one.end_ns ?? endNs])]);
  const most = Math.max(0, ...seen.flatMap(({ y }) => y));
  const model = {
    form, series: seen, height: 190, lanes: [], spreads: [],
    x: { title: "", units: [[1e9, "s"]], low: startNs, high: endNs, log: false, ticks: [], bands, measured: null, origin: endNs, ago },
    y: { title: "", units, log: false, ticks: [] }, limit: limit?.[1] > 0 && limit[1] <= 2 * most ? limit : null,
  };
  if (place.chart) place.chart.set(model); else new mrcCharts.Chart(place, model, plots);
}

function showPlots(windows) {
  const of = (name, key) => curve(name, state.points.map((point) => [point.time_ns, point[key]]));
  plot(byId("goodput-plot"), "lines", RATE, [of("", "goodput_bps")], windows, ["line rate", state.limits.goodput]);
  plot(byId("rtt-plot"), "lines", TIME, [of("p50", "p50_ns"), of("p99", "p99_ns")], windows, ["idle RTT", state.limits.rtt]);
}

function jobFigures({ pace, word }) {
  if (!pace) return [[`${word}s/s`, "–"]];
  return [[`${word}s/s`, count(pace.per_second)], ["p50", duration(pace.p50_ns)], ["p99", duration(pace.p99_ns)],
    ["slowest rank", `${pace.slowest_rank}, last in ${share(pace.slowest_share)}`]];
}

function jobSection(job) {
  const section = element("section"), attributes = { class: "chart", role: "img", tabindex: 0, "aria-label": `${job.word} time of ${job.name}` };
  section.dataset.job = job.name;
  section.append(element("h2", `Job ${job.name}`), element("p", "", { class: "headline" }), element("dl"), element("figure", "", attributes));
  byId("jobs").append(section);
  return section;
}

function showJobs(jobs, windows) {
  const sections = [...byId("jobs").children];
  for (const section of sections) if (!jobs.some((job) => job.name === section.dataset.job)) {
    section.querySelector("figure").chart?.remove();
    section.remove();
  }
  for (const job of jobs) {
    const section = sections.find((each) => each.dataset.job === job.name) ?? jobSection(job);
    section.querySelector(".headline").textContent = `${job.headline}.`;
    section.querySelector("dl").replaceChildren(...jobFigures(job).map(([name, value]) => {
      const one = element("div");
      one.append(element("dt", name), element("dd", value));
      return one;
    }));
    const steps = state.steps.get(job.name) ?? [];
    plot(section.querySelector("figure"), "dots", TIME, [{ name: "", x: steps.map(([end]) => end), y: steps.map(([, length]) => length) }], windows);
  }
}

function keepSteps(jobs) {
  for (const { name, steps } of jobs) {
    const known = state.steps.get(name) ?? [], last = known.at(-1)?.[0] ?? -1;
    state.steps.set(name, [...known, ...steps.filter(([end]) => end > last)].slice(-STEPS_KEPT));
  }
  for (const name of state.steps.keys()) if (!jobs.some((job) => job.name === name)) state.steps.delete(name);
}

function showTail(lines) {
  byId("tail").replaceChildren(...lines.filter(({ kind }) => !state.hidden.has(kind)).toReversed().map((line) => {
    const item = element("li", "", { class: line.kind });
    item.append(element("time", line.clock), line.text);
    return item;
  }));
}

function drawKinds() {
  byId("kinds").replaceChildren(...Object.entries(EVENT_KINDS).map(([kind, text]) => {
    const label = element("label"), box = element("input", "", { type: "checkbox", name: kind });
    box.checked = true;
    box.addEventListener("change", () => {
      state.hidden[box.checked ? "delete" : "add"](kind);
      if (state.update) showTail(state.update.tail);
    });
    label.append(box, text);
    return label;
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
  const each = (number) => frequency((number * 1e9) / now.interval_ns);
  byId("retransmits").textContent = each(now.retransmits);
  byId("dropped").textContent = each(Object.values(now.dropped).reduce((sum, one) => sum + one, 0));
  byId("dropped").title = Object.entries(now.dropped).map(([why, times]) => `${why}: ${times}`).join(", ");
  showJobs(update.jobs, update.windows);
  fabric.show(now, describeLink);
  showTargetFacts();
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
  keepSteps(update.jobs);
  const wasAway = state.update?.problem;
  state.update = update;
  if (wasAway && update.problem === null) loadFabric();
  if (!state.paused) show(update);
  showAge();
}

async function clear(what) {
  await attempt(async () => {
    const { ids } = await ask("/api/clear", what);
    return ids.length ? `cleared ${ids.join(", ")}` : "no manual fault was active";
  });
  document.activeElement?.blur();
}

byId("act").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    const { kind, name } = state.target;
    const place = { [kind]: kind === "plane" ? Number(name) : name };
    const { id } = await ask("/api/fault", { kind: byId("kind").value, ...place, seconds: Number(byId("seconds").value) });
    return `fault ${id} added`;
  });
});
byId("pair").addEventListener("submit", (event) => { event.preventDefault(); showPaths(); });
byId("unmark").addEventListener("click", hidePaths);
byId("clear").addEventListener("click", () => clear({}));
byId("target").addEventListener("change", () => choose(...byId("target").value.split(" ")));
byId("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  byId("pause").textContent = state.paused ? "Go on" : "Pause";
  byId("pause").setAttribute("aria-pressed", String(state.paused));
  if (!state.paused && state.update) show(state.update);
});

drawKinds();
await loadFabric();
if (!token) byId("answer").textContent = "only looking: the address lacks the token that `serve` has printed";
const events = new EventSource("/api/events");
events.onopen = () => { byId("status").textContent = "live"; state.points = []; state.steps.clear(); };
events.onerror = () => { byId("status").textContent = "the server does not answer; trying again"; };
setInterval(showAge, 500);
events.onmessage = (event) => take(JSON.parse(event.data));
