// Values as testbed.shown writes them.
const { written } = globalThis.mrcCharts;
const scale = (units) => (value) => written(value, units);

export const RATE = [[1, "bit/s"], [1e3, "kbit/s"], [1e6, "Mbit/s"], [1e9, "Gbit/s"]];
export const TIME = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];

export const rate = scale(RATE);
export const duration = scale(TIME);
export const frequency = scale([[1, "/s"], [1e3, "k/s"], [1e6, "M/s"]]);
export const share = scale([[0.01, "%"]]);
export const count = scale([[1, ""]]);
