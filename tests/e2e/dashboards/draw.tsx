// One dashboard of one scene, drawn by Grafana's own components: index.html?scene=NAME&board=NAME&theme=dark.
//
// What is Grafana's: units, thresholds, mappings, colours, transformations, legends, axes, chrome. What is ours: the
// grid, the headings, and the fault windows, which its npm packages do not draw. `window.seen` reports what the page
// drew; verdict.py judges it.

import {
    applyFieldOverrides, colorManipulator, createTheme, type DataFrame, dataLinksOverrideProcessor, dateTime,
    displayNameOverrideProcessor, type FieldConfigPropertyItem, type FieldConfigSource,
    type FieldDisplay, FieldType, getDisplayValueAlignmentFactors, getFieldDisplayValues, type InterpolateFunction,
    numberOverrideProcessor, Registry, renderLegendFormat, type ScopedVars, standardTransformers,
    standardTransformersRegistry, stringOverrideProcessor, ThemeContext, thresholdsOverrideProcessor, type TimeRange,
    toDataFrame, transformDataFrame, unitOverrideProcessor, valueMappingsOverrideProcessor, VizOrientation,
} from "@grafana/data";
import {
    BarGauge, BigValue, GlobalStyles, PanelChrome, Table, TimeSeries, type UPlotConfigBuilder, VizRepeater,
} from "@grafana/ui";
import * as React from "react";
import { createRoot } from "react-dom/client";

interface Series { labels: Record<string, string>; times: number[]; values: (number | null)[] }
interface Answer { refId: string; legend: string; format: string; series: Series[] }
interface Panel {
    id: number; type: string; title: string; description: string; options: any; fieldConfig: FieldConfigSource;
    gridPos: { x: number; y: number; w: number; h: number }; transformations?: any[];
}
interface Window { id: string; from_ms: number; to_ms: number }
interface Board { title: string; description: string; panels: Panel[] }
interface Scene {
    from_ms: number; to_ms: number; variables: Record<string, string>; windows: Window[];
    boards: Record<string, Board>; answers: Record<string, Record<number, Answer[]>>;
}
interface Words { text: string; align: string; y: number }
interface Seen {
    box: number[]; texts: string[]; cut: string[]; ticks: string[]; links: string[]; exceptions: string[];
    isDescribed: boolean;
}

const PAGE_PX = 1440;
const MARGIN_PX = 16;
const HEADER_PX = 76;
const CELL_PX = 30;
const GAP_PX = 8;
const COLUMNS = 24;
const LAYOUT_FRAMES = 10; // a plot takes some to find the widths of its axes
const DESCRIPTION = "[data-testid='title-items-container'] > *";

const asked = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: asked.get("theme") === "light" ? "light" : "dark" } });
(window as any).__grafana_public_path__ = "public/";

// ---- what Grafana's server side registers --------------------------------------------------------------------------

const { filterFieldsByNameTransformer, organizeFieldsTransformer } = standardTransformers;
standardTransformersRegistry.setInit(() => [filterFieldsByNameTransformer, organizeFieldsTransformer].map(one =>
    ({ id: one.id, name: one.name, transformation: one, editor: () => null } as any)));

const PROCESSORS: Record<string, any> = {
    unit: unitOverrideProcessor, min: numberOverrideProcessor, max: numberOverrideProcessor,
    decimals: numberOverrideProcessor, thresholds: thresholdsOverrideProcessor,
    mappings: valueMappingsOverrideProcessor, displayName: displayNameOverrideProcessor,
    links: dataLinksOverrideProcessor, noValue: stringOverrideProcessor, color: (value: unknown) => value,
};

function properties(config: FieldConfigSource): Registry<FieldConfigPropertyItem> {
    const changed = config.overrides.flatMap(one => one.properties.map(each => each.id));
    const custom = new Set([
        ...Object.keys(config.defaults.custom ?? {}),
        ...changed.filter(id => id.startsWith("custom.")).map(id => id.slice("custom.".length)),
    ]);
    const item = (id: string, path: string, process: any, isCustom: boolean) =>
        ({ id, path, name: id, process, isCustom, shouldApply: () => true, editor: null, override: null } as any);
    return new Registry(() => [
        ...Object.entries(PROCESSORS).map(([id, process]) => item(id, id, process, false)),
        ...[...custom].map(path => item(`custom.${path}`, path, (value: unknown) => value, true)),
    ]);
}

// ---- from Prometheus's answers to frames ---------------------------------------------------------------------------

function framesOf(answers: Answer[]): DataFrame[] {
    return answers.flatMap(answer => answer.format === "table" ? [tableOf(answer)] : linesOf(answer));
}

function linesOf(answer: Answer): DataFrame[] {
    return answer.series.map(({ labels, times, values }) => toDataFrame({
        refId: answer.refId,
        fields: [
            { name: "Time", type: FieldType.time, values: times },
            {
                name: "Value", type: FieldType.number, labels, values,
                config: { displayNameFromDS: renderLegendFormat(answer.legend, labels) },
            },
        ],
    }));
}

function tableOf(answer: Answer): DataFrame {
    const { series } = answer;
    const names = [...new Set(series.flatMap(one => Object.keys(one.labels)))].sort();
    return toDataFrame({
        refId: answer.refId,
        fields: [
            { name: "Time", type: FieldType.time, values: series.map(one => one.times[0]) },
            ...names.map(name => ({
                name, type: FieldType.string, values: series.map(one => one.labels[name] ?? ""),
            })),
            { name: "Value", type: FieldType.number, values: series.map(one => one.values[0]) },
        ],
    });
}

function prepared(panel: Panel, answers: Answer[], replace: InterpolateFunction): DataFrame[] {
    let frames = framesOf(answers);
    transformDataFrame(panel.transformations ?? [], frames).subscribe(changed => { frames = changed; });
    return applyFieldOverrides({
        data: frames, fieldConfig: panel.fieldConfig, fieldConfigRegistry: properties(panel.fieldConfig),
        replaceVariables: replace, theme, timeZone: "utc",
    });
}

function replacing(scene: Scene): InterpolateFunction {
    return (text: string, scoped?: ScopedVars) => text.replace(
        /\$\{([\w.:]+)\}|\$(\w+)/g,
        (whole, braced?: string, bare?: string) => {
            const [name] = (braced ?? bare ?? "").split(":");
            const cell = /^__data\.fields\.(\w+)$/.exec(name);
            if (cell !== null) {
                const { frame, rowIndex } = (scoped?.__dataContext?.value ?? {}) as any;
                return frame?.fields.find((field: any) => [field.name, field.state?.displayName].includes(cell[1]))
                    ?.values[rowIndex] ?? whole;
            }
            return scene.variables[name] ?? whole;
        });
}

// ---- panels --------------------------------------------------------------------------------------------------------

function shade(builder: UPlotConfigBuilder, windows: Window[]): void {
    builder.addHook("draw", plot => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        ctx.fillStyle = colorManipulator.alpha(theme.colors.error.main, 0.1);
        ctx.strokeStyle = theme.colors.error.main;
        ctx.setLineDash([3, 3]);
        for (const each of windows) {
            const [left, right] = [each.from_ms, each.to_ms].map(at => plot.valToPos(at, "x", true));
            ctx.fillRect(left, bbox.top, right - left, bbox.height);
            for (const x of [left, right]) {
                ctx.beginPath();
                ctx.moveTo(x, bbox.top);
                ctx.lineTo(x, bbox.top + bbox.height);
                ctx.stroke();
            }
        }
        ctx.restore();
    });
}

interface Drawn {
    panel: Panel; frames: DataFrame[]; width: number; height: number; scene: Scene; replace: InterpolateFunction;
}

function Lines({ panel, frames, width, height, scene }: Drawn) {
    const range: TimeRange = {
        from: dateTime(scene.from_ms), to: dateTime(scene.to_ms), raw: { from: "now-5m", to: "now" },
    };
    return <TimeSeries frames={frames} width={width} height={height} timeRange={range} timeZone="utc"
        legend={panel.options.legend} options={panel.options}>
        {(builder: UPlotConfigBuilder) => { shade(builder, scene.windows); return null; }}
    </TimeSeries>;
}

function displays({ panel, frames, replace }: Drawn): FieldDisplay[] {
    return getFieldDisplayValues({
        fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: replace,
        theme, data: frames, sparkline: panel.options.graphMode === "area", timeZone: "utc",
    });
}

function Numbers(drawn: Drawn) {
    const { panel: { options }, frames, width, height } = drawn;
    return <VizRepeater getValues={() => displays(drawn)} width={width} height={height} source={frames}
        renderCounter={0} orientation={VizOrientation.Auto} autoGrid={true}
        renderValue={({ value, width, height, count }) =>
            <BigValue theme={theme} width={width} height={height} count={count}
                value={value.display} sparkline={value.sparkline} colorMode={options.colorMode}
                graphMode={options.graphMode} justifyMode={options.justifyMode} textMode={options.textMode} />} />;
}

function Bars(drawn: Drawn) {
    const { panel: { options }, frames, width, height } = drawn;
    return <VizRepeater getValues={() => displays(drawn)} width={width} height={height} source={frames}
        renderCounter={0} orientation={options.orientation} minVizHeight={options.minVizHeight}
        maxVizHeight={options.maxVizHeight} itemSpacing={8} getAlignmentFactors={getDisplayValueAlignmentFactors}
        renderValue={({ value, width, height, orientation, alignmentFactors }) =>
            <BarGauge theme={theme} width={width} height={height} orientation={orientation} itemSpacing={2}
                value={value.display} field={value.field} alignmentFactors={alignmentFactors}
                display={value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)} lcdCellWidth={12}
                displayMode={options.displayMode} text={options.text} showUnfilled={options.showUnfilled}
                valueDisplayMode={options.valueMode} namePlacement={options.namePlacement} />} />;
}

function Body(drawn: Drawn) {
    switch (drawn.panel.type) {
        case "timeseries": return drawn.frames.length > 0 ? <Lines {...drawn} /> : <None {...drawn} />;
        case "stat": return <Numbers {...drawn} />;
        case "bargauge": return <Bars {...drawn} />;
        case "table": return drawn.frames[0]?.length
            ? <Table data={drawn.frames[0]} width={drawn.width} height={drawn.height} />
            : <None {...drawn} />;
        default: return <Note text={`Grafana's core draws a ${drawn.panel.type}; its data are checked`} />;
    }
}

const None = ({ panel }: Drawn) => <Note text={panel.fieldConfig.defaults.noValue ?? "No data"} />;

const Note = ({ text }: { text: string }) =>
    <div style={{ display: "grid", placeItems: "center", height: "100%", color: theme.colors.text.secondary }}>
        {text}
    </div>;

class Fence extends React.Component<{ children: React.ReactNode }, { error?: Error }> {
    state: { error?: Error } = {};
    static getDerivedStateFromError(error: Error) { return { error }; }
    render() {
        const { error } = this.state;
        return error ? <pre className="exception">{String(error.stack)}</pre> : this.props.children;
    }
}

function Whole({ scene, board }: { scene: Scene; board: string }) {
    const { title, description, panels } = scene.boards[board];
    const replace = replacing(scene);
    const cell = (PAGE_PX - 2 * MARGIN_PX + GAP_PX) / COLUMNS;
    const place = ({ x, y, w, h }: Panel["gridPos"]) => ({
        left: MARGIN_PX + x * cell, top: HEADER_PX + y * (CELL_PX + GAP_PX),
        width: w * cell - GAP_PX, height: h * (CELL_PX + GAP_PX) - GAP_PX,
    });
    const bottom = Math.max(...panels.map(({ gridPos }) => place(gridPos).top + place(gridPos).height));
    return <ThemeContext.Provider value={theme}>
        <GlobalStyles />
        <main style={{
            position: "relative", width: PAGE_PX, height: bottom + MARGIN_PX,
            background: theme.colors.background.canvas,
        }}>
            <header style={{ position: "absolute", left: MARGIN_PX, top: 12, right: MARGIN_PX }}>
                <b>{title}</b> <span style={{ color: theme.colors.text.secondary }}>{description}</span>
            </header>
            {panels.map(panel => {
                const { left, top, width, height } = place(panel.gridPos);
                const style: React.CSSProperties = { position: "absolute", left, top, width, height };
                return panel.type === "row"
                    ? <h4 key={panel.id} style={{ ...style, margin: 0 }}>{panel.title}</h4>
                    : <section key={panel.id} data-panel={panel.id} style={style}>
                        <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
                            {(width, height) => <Fence>
                                <Body panel={panel} scene={scene} replace={replace} width={width} height={height}
                                    frames={prepared(panel, scene.answers[board][panel.id], replace)} />
                            </Fence>}
                        </PanelChrome>
                    </section>;
            })}
        </main>
    </ThemeContext.Provider>;
}

// ---- what was drawn ------------------------------------------------------------------------------------------------

const written = new Map<HTMLCanvasElement, Words[]>();
const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.fillText = function (text: string, x: number, y: number, ...rest: number[]) {
    const words = { text, align: this.textAlign, y: this.getTransform().transformPoint({ x, y }).y };
    written.set(this.canvas, [...(written.get(this.canvas) ?? []), words]);
    fillText.call(this, text, x, y, ...rest as [number?]);
};
CanvasRenderingContext2D.prototype.clearRect = function (...where) {
    written.delete(this.canvas);
    clearRect.apply(this, where);
};

function texts(section: Element): { text: string; element: HTMLElement }[] {
    const found = [];
    const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
        const text = node.textContent?.trim();
        if (text) found.push({ text, element: node.parentElement! });
    }
    return found;
}

// Text that its box does not show: too long for it, or below the edge of a box that scrolls.
function isCut(element: HTMLElement, section: Element): boolean {
    const range = document.createRange();
    range.selectNodeContents(element);
    const own = range.getBoundingClientRect();
    for (let box: HTMLElement | null = element; box !== null && box !== section; box = box.parentElement) {
        const { overflowX, overflowY } = getComputedStyle(box);
        const edge = box.getBoundingClientRect();
        if (overflowX !== "visible" && own.right > edge.right + 1) return true;
        if (overflowY !== "visible" && own.bottom > edge.bottom + 2) return true;
    }
    return false;
}

function report(scene: Scene, board: string): Record<number, Seen> {
    const seen: Record<number, Seen> = {};
    for (const section of document.querySelectorAll<HTMLElement>("[data-panel]")) {
        const all = texts(section);
        const { type } = scene.boards[board].panels.find(one => one.id === Number(section.dataset.panel))!;
        const canvases = type === "timeseries" ? [...section.querySelectorAll("canvas")] : []; // others hide their axes
        const words = canvases.flatMap(canvas => written.get(canvas) ?? []);
        const ticks = words.filter(one => one.align === "right").sort((one, other) => other.y - one.y);
        const { left, top, right, bottom } = section.getBoundingClientRect();
        seen[Number(section.dataset.panel)] = {
            box: [left + scrollX, top + scrollY, right + scrollX, bottom + scrollY].map(Math.round),
            texts: [...all.map(one => one.text), ...words.map(one => one.text)],
            cut: all.filter(one => isCut(one.element, section)).map(one => one.text),
            ticks: ticks.map(one => one.text),
            links: [...section.querySelectorAll("a")].map(one => one.getAttribute("href") ?? ""),
            exceptions: [...section.querySelectorAll(".exception")].map(one => one.textContent ?? ""),
            isDescribed: section.querySelector(DESCRIPTION) !== null,
        };
    }
    return seen;
}

async function draw(): Promise<void> {
    const scene: Scene = await (await fetch(`${asked.get("scene")}.json`)).json();
    Date.now = () => scene.to_ms; // "12 seconds ago" is before the end of the scene
    const board = asked.get("board")!;
    createRoot(document.getElementById("page")!).render(<Whole scene={scene} board={board} />);
    const panels = scene.boards[board].panels.filter(({ type }) => type !== "row").length;
    const drawn = () => document.querySelectorAll(`${DESCRIPTION} path`).length; // icons are fetched
    for (let count = 0; count < LAYOUT_FRAMES || drawn() < panels; count++) {
        await new Promise(done => requestAnimationFrame(done));
    }
    await document.fonts.ready;
    (window as any).seen = report(scene, board);
}

draw().catch(error => { (window as any).seen = { error: String(error) }; });
