// Charts of reports and of the live page: data of mrc_testbed/report/chart.py, drawn by uPlot. Under the cursor stand the values of all
// charts with the same axis; dragging zooms them together, a double click takes that back. Keys: arrows, Home, End, Escape; + - 0 zoom.
"use strict";
globalThis.mrcCharts = (() => {
  const STEPS = [1, 2, 2.5, 5, 10], LOG_TICKS = [1, 2, 5], DENSE_DECADES = 1.6, STYLES = 8;
  const HEIGHT = 252, LANE_PITCH = 40, LANES_MAX = 320, LEGEND_WIDTH = 6.4, FAULT_ROWS = 2, FAULT_ROW = 13, DOTS_MAX = 60;
  const FONT = '11.5px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

  // As testbed.shown writes values: three digits in the largest unit that the value reaches, once rounded.
  const unitOf = (value, units) => units.findLast(([least]) => Math.abs(value) >= 0.9995 * least) ?? units[0];
  const written = (value, units) => {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    const [factor, name] = unitOf(value, units), number = value / factor;
    const text = Math.abs(number) < 999.5 ? String(Number(number.toPrecision(3))) : Math.round(number).toLocaleString("en");
    return `${text} ${name}`.trim();
  };

  const colours = new Map();
  const css = (name) => {
    if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
    return colours.get(name);
  };
  const colour = (index) => css(`--c${index % STYLES}`);
  const dashes = (index) => (css(`--d${index % STYLES}`) === "none" ? [] : css(`--d${index % STYLES}`).split(" ").map(Number));

  const roundStep = (step) => {
    const power = 10 ** Math.floor(Math.log10(step));
    return STEPS.find((each) => each * power >= step * 0.9999) * power;
  };
  const logTicks = (low, high) => {
    const found = [];
    for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.ceil(Math.log10(high)) + 1; power++)
      found.push(...LOG_TICKS.map((each) => each * 10 ** power));
    return found;
  };

  const logEnds = (low, high) => {
    const ticks = logTicks(low, high), bottom = ticks.findLast((tick) => tick <= low * 1.0001);
    return [bottom, ticks.find((tick) => tick >= high * 0.9999 && tick > bottom)];
  };

  // Places of ticks and what stands at them, for what is in view.
  function ticksOf(axis, low, high, room, unitLow = high) {
    const seen = axis.ticks.filter(([at]) => low <= at && at <= high);
    if (axis.ticks.length) {
      const longest = Math.max(0, ...seen.map(([, name]) => (name.length + 2) * LEGEND_WIDTH));
      const every = Math.max(1, Math.ceil((longest * seen.length) / room));
      return seen.filter((_, index) => index % every === 0);
    }
    if (axis.log) {
      const all = logTicks(low, high).filter((tick) => low * 0.9999 <= tick && tick <= high * 1.0001);
      const isDense = Math.log10(high / low) <= DENSE_DECADES;
      const shown = isDense ? all : all.filter((tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9);
      return shown.map((tick) => [tick, written(tick, axis.units)]);
    }
    const [factor] = unitOf(unitLow, axis.units);
    const step = factor * roundStep((high - low) / factor / Math.max(2, Math.floor(room)));
    const found = [];
    for (let index = Math.ceil(low / step - 1e-9); index * step <= high * (1 + 1e-9) + 1e-12; index++) {
      const number = (index * step) / factor;
      found.push([index * step, Math.abs(number) >= 1000 ? number.toLocaleString("en") : String(Number(number.toPrecision(9)))]);
    }
    return found;
  }

  // Charts of one article whose horizontal axes are the same.
  class Group {
    constructor() { this.charts = []; this.zoom = null; this.busy = false; }

    show(x) {
      if (this.busy) return;
      this.busy = true;
      for (const chart of this.charts) chart.show(x);
      this.busy = false;
    }

    zoomTo(zoom) {
      this.zoom = zoom;
      for (const chart of this.charts) chart.rescale();
    }
  }

  class Chart {
    constructor(place, model, group = new Group()) {
      Object.assign(this, { place, model, group, at: null });
      place.chart = this;
      group.charts.push(this);
      this.legend = document.createElement("ul");
      this.plot = document.createElement("div");
      place.replaceChildren(this.legend, this.plot);
      this.drawLegend();
      place.addEventListener("keydown", (event) => this.press(event));
      place.addEventListener("blur", () => group.show(null));
      new ResizeObserver(() => this.resize()).observe(place);
      this.resize();
    }

    // Of a line with few values each is a dot too; on the live page there are ever more.
    hasDots(index) { return this.model.x.origin === undefined && this.model.series[index].y.length <= DOTS_MAX; }

    get isStepped() { return this.model.form === "steps" || this.model.form === "lanes"; }

    // New data; what is zoomed into stays in view.
    set(model) {
      this.model = model;
      if (!this.u) return;
      if (this.u.series.length !== this.aligned().length) { this.u.destroy(); this.u = null; this.resize(); return; }
      this.u.setData(this.aligned(), false);
      this.rescale();
    }

    remove() {
      this.group.charts = this.group.charts.filter((each) => each !== this);
      this.u?.destroy();
    }

    rescale() {
      if (!this.u) return;
      const [min, max] = this.group.zoom ?? this.ends();
      this.u.setScale("x", { min, max });
    }

    ends() {
      const { x, series } = this.model, all = series.flatMap((one) => [one.x[0], one.x.at(-1)]).filter((each) => each !== undefined);
      let low = x.low ?? Math.min(...all), high = x.high ?? Math.max(...all);
      if (x.log && x.low === null && low > 0) [low, high] = logEnds(low, high);
      return Number.isFinite(low) && high > low ? [low, high] : [Number.isFinite(low) ? low : 0, (Number.isFinite(low) ? low : 0) + 1];
    }

    resize() {
      const width = this.place.clientWidth;
      if (!width || width === this.width && this.u) return;
      this.width = width;
      if (this.u) this.u.setSize({ width, height: this.height() });
      else this.u = new uPlot(this.options(width), this.aligned(), this.plot);
    }

    height() {
      const { form, lanes } = this.model;
      return form === "lanes" ? HEIGHT - 172 + lanes.length * Math.min(LANE_PITCH, LANES_MAX / lanes.length) : this.model.height ?? HEIGHT;
    }

    // uPlot's data: places, then values at them; areas of lanes from the top of each stack down.
    aligned() {
      const { form, series, lanes } = this.model;
      if (!series.length) return [[]];
      if (form === "lanes") {
        const rows = [];
        lanes.forEach(({ full, series: stack }, index) => {
          const floor = lanes.length - 1 - index;
          let roof = stack[0].y.map(() => 0);
          const areas = stack.map(({ y }) => (roof = roof.map((low, at) => low + (y[at] ?? 0))).map((sum) => sum && floor + 0.88 * Math.min(1, sum / full)));
          rows.push(...areas.reverse().map((area) => [...area.map((sum) => sum || null), null]));
        });
        return [series[0].x, ...rows];
      }
      if (form === "steps") {
        const xs = [...new Set(series.flatMap((one) => one.x))].sort((one, other) => one - other);
        return [xs, ...series.map((one) => {
          let at = -1;
          return xs.map((x) => {
            while (at + 1 < one.x.length && one.x[at + 1] <= x) at++;
            return one.y[at] ?? null;
          });
        })];
      }
      return uPlot.join(series.map((one) => [one.x, one.y]), series.map(() => [1, 1]));
    }

    options(width) {
      const { form, x, y } = this.model, self = this;
      const font = FONT, labelFont = FONT, stroke = () => css("--muted"), border = { show: false };
      const room = (u) => u.bbox.width / uPlot.pxRatio;
      const axis = {
        font, labelFont, stroke, labelSize: 20, labelGap: 0, filter: (u, splits) => splits,
        ticks: { show: true, stroke, size: 4, width: 1 },
      };
      const across = (u) => {
        const { min, max } = u.scales.x, { origin = 0, ticks, high } = this.model.x;
        const found = ticksOf(this.model.x, min - origin, max - origin, ticks.length ? room(u) : room(u) / 75, (high ?? max) - origin || max - min);
        return found.map(([at, text]) => [at + origin, this.model.x.ago?.(text) ?? text]);
      };
      const upward = (u) => (form === "lanes"
        ? this.model.lanes.map((lane, index) => [this.model.lanes.length - 1 - index + 0.44, lane.name]).reverse()
        : ticksOf(this.model.y, u.scales.y.min, u.scales.y.max, form === "cells" ? 4 : 5));
      const titled = (axis, unit) => (unit && !axis.log && !axis.ticks.length ? (axis.title ? `${axis.title} (${unit})` : unit) : axis.title);
      return {
        width, height: this.height(), padding: [() => (this.model.x.bands.length && form !== "cells" ? 4 + FAULT_ROWS * FAULT_ROW : 16), 14, 0, 0],
        legend: { show: false },
        cursor: {
          y: false, points: { show: false }, drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => { this.group.zoomTo(null); return null; } },
        },
        scales: {
          x: { time: false, distr: x.log ? 3 : 1, range: () => this.group.zoom ?? this.ends() },
          y: { distr: y.log ? 3 : 1, range: (u, low, high) => this.reach(low, high) },
        },
        axes: [
          { ...axis, size: 26, border, grid: { show: false }, splits: (u) => across(u).map(([at]) => at),
            values: (u) => across(u).map(([, text]) => text),
            label: x.title ? () => titled(this.model.x, unitOf(this.model.x.high ?? 1, x.units)[1]) : undefined },
          { ...axis, size: 62, border, grid: { show: form !== "lanes", stroke: () => css("--grid"), width: 1 },
            ticks: { show: false }, splits: (u) => upward(u).map(([at]) => at), values: (u) => upward(u).map(([, text]) => text),
            label: (u) => (form === "lanes" ? y.title : titled(this.model.y, unitOf(u.scales.y.max, y.units)[1])) },
        ],
        series: [{}, ...this.seriesOptions()],
        hooks: {
          setCursor: [(u) => this.group.show(u.cursor.left < 0 ? null : u.posToVal(u.cursor.left, "x"))],
          setSelect: [(u) => {
            const { left, width: wide } = u.select;
            if (wide < 3) return;
            this.group.zoomTo([u.posToVal(left, "x"), u.posToVal(left + wide, "x")]);
            u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          }],
          drawClear: [(u) => self.drawBehind(u)],
          draw: [(u) => self.drawOver(u)],
        },
      };
    }

    seriesOptions() {
      const { form, series, lanes, barWidth } = this.model, points = { show: false };
      if (form === "lanes")
        return lanes.flatMap((lane, index) => lane.series.map((_, at) => at).reverse().map((at) => ({
          points, width: 0, fill: () => colour(at), paths: stairs, floor: lanes.length - 1 - index,
        })));
      return series.map((_, index) => {
        const at = form === "cells" ? 1 : index, stroke = () => colour(at), dash = dashes(index);
        const dot = { show: true, size: form === "cells" ? 5 : 5.5, width: 0, fill: stroke, filter: null };
        if (form === "steps") return { stroke, dash, width: 1.8, points, paths: stairs };
        if (form === "bars") return { stroke, fill: stroke, width: 0, points, paths: uPlot.paths.bars({ size: [barWidth, 1e4], gap: 0 }) };
        if (form === "lines") return { stroke, dash, width: 1.8, points: { ...dot, size: 6, show: (u, at) => this.hasDots(at - 1) } };
        return { stroke, width: 0, paths: () => null, points: dot };
      });
    }

    // The ends of the vertical axis: round values around what is in view, its limit, and zero.
    reach(low, high) {
      const { form, y, limit, spreads, lanes } = this.model;
      if (form === "lanes") return [0, lanes.length];
      if (low === null || high === null || !Number.isFinite(low)) return y.log ? [1, 10] : [0, 1];
      high = Math.max(high, limit?.[1] ?? high);
      if (y.log) return logEnds(Math.min(low, limit?.[1] || low), high);
      high = Math.max(high, ...spreads.map(([, , , top]) => top ?? high));
      low = Math.min(low, ...spreads.map(([, , bottom]) => bottom ?? low));
      if (form !== "cells" || (low >= 0 && low < 0.5 * high)) low = Math.min(0, low);
      if (high <= low) high = low + (Math.abs(low) || 1);
      const [factor] = unitOf(high, y.units), step = factor * roundStep((high - low) / factor / (form === "cells" ? 4 : 5));
      return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
    }

    // Faults, and what was not part of the measurement.
    drawBehind(u) {
      const { bands, measured } = this.model.x, { ctx, bbox } = u;
      const shade = (from, to, fill) => {
        const left = Math.max(bbox.left, u.valToPos(from, "x", true)), right = Math.min(bbox.left + bbox.width, u.valToPos(to, "x", true));
        if (right < bbox.left || left > bbox.left + bbox.width || to < from) return;
        ctx.fillStyle = fill;
        ctx.fillRect(left, bbox.top, Math.max(right - left, uPlot.pxRatio), bbox.height);
      };
      ctx.save();
      if (measured) {
        shade(u.scales.x.min, Math.max(u.scales.x.min, measured[0]), measured[0] > u.scales.x.min ? css("--outside") : "transparent");
        if (measured[1] < u.scales.x.max) shade(measured[1], u.scales.x.max, css("--outside"));
      }
      for (const [, periods] of bands) for (const [from, to] of periods) shade(from, to, css(this.model.form === "cells" ? "--ground" : "--fault-back"));
      if (this.model.form === "lanes") for (const index of this.model.lanes.keys()) {
        ctx.fillStyle = css("--ground");
        const top = u.valToPos(index + 0.88, "y", true);
        ctx.fillRect(bbox.left, top, bbox.width, u.valToPos(index, "y", true) - top);
      }
      ctx.restore();
    }

    // Names of faults, the limit, medians, values of bars.
    drawOver(u) {
      const { form, limit, spreads, x: { bands } } = this.model, { ctx, bbox } = u, ratio = uPlot.pxRatio;
      const right = bbox.left + bbox.width, text = (string, x, y, align, fill = css("--ink"), weight = "") => {
        ctx.font = weight + FONT.replace(/^[\d.]+/, (size) => String(size * ratio));
        Object.assign(ctx, { fillStyle: fill, textAlign: align, textBaseline: "alphabetic" });
        ctx.fillText(string, x, y);
      };
      const stroke = (path, style, width, dash = []) => {
        Object.assign(ctx, { strokeStyle: style, lineWidth: width * ratio });
        ctx.setLineDash(dash.map((each) => each * ratio));
        ctx.beginPath();
        path();
        ctx.stroke();
      };
      ctx.save();
      const place = (x) => Math.min(right, Math.max(bbox.left, u.valToPos(x, "x", true)));
      const rowEnds = Array(FAULT_ROWS).fill(0);
      for (const [name, periods] of form === "cells" ? [] : bands) {
        if (periods.at(-1)[1] < u.scales.x.min || periods[0][0] > u.scales.x.max) continue;
        const from = place(periods[0][0]), to = place(periods.at(-1)[1]);
        const wide = name.length * 6.6 * ratio, left = Math.max(bbox.left, Math.min(from, right - wide));
        const row = Math.max(0, rowEnds.findIndex((end) => end <= left)), y = bbox.top - (4 + row * FAULT_ROW) * ratio;
        const hidden = rowEnds[row] > left;
        rowEnds[row] = Math.max(rowEnds[row], to, left + wide) + 6 * ratio;
        ctx.fillStyle = css("--fault");
        ctx.fillRect(from, y, Math.max(to - from, 2 * ratio), 2.5 * ratio);
        if (!hidden) text(name, left, y - 2 * ratio, "left", css("--ink"), "600 ");
      }
      if (limit) {
        const y = u.valToPos(limit[1], "y", true);
        stroke(() => { ctx.moveTo(bbox.left, y); ctx.lineTo(right, y); }, css("--ink"), 1, [2, 4]);
        text(limit[0], right - 4 * ratio, y + 13 * ratio, "right");
      }
      for (const [at, median, low, high] of spreads) {
        const x = u.valToPos(at, "x", true), y = (value) => u.valToPos(value, "y", true), half = 0.3 * (u.valToPos(at + 1, "x", true) - x);
        ctx.globalAlpha = 0.35;
        if (low !== null && high !== null) stroke(() => { ctx.moveTo(x, y(low)); ctx.lineTo(x, y(high)); }, css("--c0"), 6);
        ctx.globalAlpha = 1;
        const wide = Math.min(16 * ratio, half);
        stroke(() => { ctx.moveTo(x - wide, y(median)); ctx.lineTo(x + wide, y(median)); }, css("--c0"), 2.4);
        const string = written(median, this.model.y.units);
        if (string.length * LEGEND_WIDTH * ratio < half / 0.3 + 8) text(string, x, y(high ?? median) - 6 * ratio, "center", css("--ink"), "600 ");
      }
      if (form === "bars") this.model.series.forEach((one) => one.x.forEach((at, index) => {
        if (one.y[index] === null) return;
        const string = written(one.y[index], this.model.y.units), wide = u.valToPos(at + this.model.barWidth, "x", true) - u.valToPos(at, "x", true);
        if (string.length * LEGEND_WIDTH * ratio < wide + 8) text(string, u.valToPos(at, "x", true), u.valToPos(one.y[index], "y", true) - 4 * ratio, "center", css("--muted"));
      }));
      ctx.restore();
    }

    drawLegend() {
      const { form, series } = this.model;
      const items = series.filter(({ name }, index) => name || index === 0).map((one) => {
        const item = document.createElement("li"), index = series.indexOf(one);
        if (form === "cells") item.append("median");
        else if (one.name) item.append(sample(form, index), one.name);
        item.append(one.output = document.createElement("output"));
        return item;
      });
      const at = document.createElement("li");
      at.className = "at";
      this.time = at;
      this.legend.replaceChildren(...items, at);
      this.legend.setAttribute("aria-hidden", "true");
      this.outputs = series.map((one) => one.output);
    }

    // The cursor and the values under it; null for none.
    show(x) {
      this.at = x;
      const { series, x: axis } = this.model;
      if (this.u) {
        const [min, max] = [this.u.scales.x.min, this.u.scales.x.max], isSeen = x !== null && min <= x && x <= max;
        const left = isSeen ? this.u.valToPos(x, "x") : -10;
        if (Math.abs((this.u.cursor.left ?? -10) - left) > 0.5) this.u.setCursor({ left, top: isSeen ? 1 : -10 });
      }
      this.time.textContent = x === null ? "" : this.placeText(x);
      series.forEach((one, index) => {
        if (this.outputs[index]) this.outputs[index].textContent = x === null ? "" : written(this.valueAt(one, x), this.model.y.units);
      });
    }

    placeText(x) {
      const { log, units, high, ticks, origin = 0 } = this.model.x;
      if (ticks.length) {
        const nearest = ticks.reduce((one, other) => (Math.abs(other[0] - x) < Math.abs(one[0] - x) ? other : one));
        return this.model.form === "cells" ? `cell ${nearest[1]}` : nearest[1];
      }
      if (log) return written(x, units);
      const [min, max] = this.group.zoom ?? this.ends(), [factor, name] = unitOf((high ?? x) - origin || max - min, units);
      const digits = Math.max(0, 2 - Math.floor(Math.log10((max - min) / factor / 10)));
      return `${((x - origin) / factor).toFixed(Math.min(digits, 9))} ${name}`.trim();
    }

    valueAt(one, x) {
      const over = one.x.findIndex((each) => each > x), after = over < 0 ? one.x.length : over;
      if (this.isStepped) return after === 0 || after >= one.x.length ? null : one.y[after - 1];
      if (this.model.form === "cells") return this.model.spreads.find(([at]) => at === Math.round(x))?.[1];
      if (this.model.form === "bars") return one.y[one.x.findIndex((each) => Math.round(each) === Math.round(x))];
      return after === one.x.length || (after > 0 && x - one.x[after - 1] < one.x[after] - x) ? one.y[after - 1] : one.y[after];
    }

    press(event) {
      const { series } = this.model, [min, max] = this.group.zoom ?? this.ends();
      const places = series[0]?.x ?? [], xs = this.isStepped ? places.slice(1).map((end, at) => (end + places[at]) / 2) : places;
      const seen = xs.filter((x) => min <= x && x <= max), step = event.shiftKey ? 10 : 1;
      const at = this.at === null ? null : seen.reduce((best, x, index) => (Math.abs(x - this.at) < Math.abs(seen[best] - this.at) ? index : best), 0);
      const go = (index) => this.group.show(seen[Math.min(Math.max(index, 0), seen.length - 1)] ?? null);
      const zoom = (factor) => {
        const [low, high] = this.ends(), middle = this.at ?? (min + max) / 2, half = ((max - min) * factor) / 2;
        const left = Math.max(low, middle - half), right = Math.min(high, middle + half);
        this.group.zoomTo(left <= low && right >= high ? null : [left, right]);
      };
      const moves = {
        ArrowRight: () => go(at === null ? 0 : at + step), ArrowLeft: () => go(at === null ? seen.length - 1 : at - step),
        Home: () => go(0), End: () => go(seen.length - 1), Escape: () => this.group.show(null),
        "+": () => zoom(0.5), "-": () => zoom(2), 0: () => this.group.zoomTo(null),
      };
      if (!(event.key in moves) || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      moves[event.key]();
    }
  }

  // A value over its whole interval; nothing where there is none. Areas reach down to the floor of their lane.
  function stairs(u, index, from, to) {
    const xs = u.data[0], ys = u.data[index], { floor } = u.series[index], stroke = new Path2D(), fill = new Path2D();
    const y = (value) => Math.round(u.valToPos(value, "y", true)), x = (value) => u.valToPos(value, "x", true);
    let isDown = false;
    for (let at = Math.max(0, from - 1); at <= Math.min(to, xs.length - 2); at++) {
      if (ys[at] === null) { isDown = false; continue; }
      const left = x(xs[at]), right = x(xs[at + 1]), top = y(ys[at]);
      stroke[isDown ? "lineTo" : "moveTo"](left, top);
      stroke.lineTo(right, top);
      if (floor !== undefined) fill.rect(left, top, right - left, y(floor) - top);
      isDown = true;
    }
    return { stroke: floor === undefined ? stroke : null, fill: floor === undefined ? null : fill };
  }

  // What a curve looks like, for a legend.
  function sample(form, index) {
    const made = document.createElement("template"), colour = `"var(--c${index % STYLES})"`;
    const shape = form === "steps" || form === "lines"
      ? `<path d="M0,5H26" fill="none" stroke=${colour} stroke-width="1.8" stroke-dasharray="${dashes(index).join(" ")}"/>`
      : form === "dots" ? `<circle cx="13" cy="5" r="3" fill=${colour} />` : `<rect width="26" height="10" fill=${colour} />`;
    made.innerHTML = `<svg viewBox="0 0 26 10">${shape}</svg>`;
    return made.content;
  }

  // The charts of an article, from the data that it contains.
  function drawArticle(script) {
    const { axes, xs, charts } = JSON.parse(script.textContent), article = script.closest("article"), groups = new Map();
    const named = ([name, x, y]) => ({ name, x: xs[x], y });
    const places = [...article.querySelectorAll("figure.chart")].filter((place) => place.closest("article") === article);
    for (const model of charts) {
      const place = places.find((each) => each.dataset.chart === model.key);
      if (!groups.has(model.x)) groups.set(model.x, new Group());
      const lanes = model.lanes.map(([name, full, series]) => ({ name, full, series: series.map(named) }));
      if (place) new Chart(place, { ...model, x: axes[model.x], y: axes[model.y], lanes, series: model.series.map(named) }, groups.get(model.x));
    }
  }

  const all = () => [...document.querySelectorAll("figure.chart")].map((place) => place.chart).filter(Boolean);
  const repaint = () => {
    colours.clear();
    for (const chart of all()) chart.u?.redraw(false, true);
  };
  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", repaint);
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
    for (const chart of all()) chart.resize();
  });
  for (const script of document.querySelectorAll("script.charts")) drawArticle(script);
  return { Chart, Group, written };
})();
