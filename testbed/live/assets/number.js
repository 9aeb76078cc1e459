// Values as testbed.shown writes them: three significant digits, a space, a unit.
const BELOW = 0.9995; // what is rounded up to a unit has it

function scale(units) {
  return (value) => {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    const [factor, name] = units.findLast(([least]) => Math.abs(value) >= BELOW * least) ?? units[0];
    const number = value / factor;
    const text = Math.abs(number) < 999.5 ? String(Number(number.toPrecision(3))) : Math.round(number).toLocaleString("en");
    return `${text} ${name}`.trim();
  };
}

export const rate = scale([[1, "bit/s"], [1e3, "kbit/s"], [1e6, "Mbit/s"], [1e9, "Gbit/s"]]);
export const duration = scale([[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]]);
export const frequency = scale([[1, "/s"], [1e3, "k/s"], [1e6, "M/s"]]);
export const share = scale([[0.01, "%"]]);
export const count = scale([[1, ""]]);
