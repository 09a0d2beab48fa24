// Small SVG charts: pairs of bars, a histogram with marks, a curve. Every text is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function drawing(width, height, label) {
  return element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
}

const shown = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1));

// rows: [{name, values: [[kind, number], ...]}], one or two bars a row, from a line at zero. `reach` are values that must fit
// in too, so that charts shown one after the other have one scale.
export function bars(rows, label, reach = []) {
  const [width, left, right, height] = [440, 110, 44, 22];
  const every = [...rows.flatMap((row) => row.values.map(([, value]) => value)), ...reach];
  const [low, high] = [Math.min(0, ...every), Math.max(0, ...every, 1e-6)];
  const x = (value) => left + ((value - low) / (high - low)) * (width - left - right);
  const svg = drawing(width, rows.length * height + 6, label);
  svg.append(element("line", { class: "axis", x1: x(0), x2: x(0), y1: 0, y2: rows.length * height }));
  rows.forEach((row, place) => {
    const top = place * height + 3;
    svg.append(element("text", { class: "name", x: left - 8, y: top + 12, "text-anchor": "end" }, row.name));
    const thick = 16 / row.values.length;
    row.values.forEach(([kind, value], number) => {
      const [from, to] = [Math.min(x(0), x(value)), Math.max(x(0), x(value))];
      const bar = element("rect", { class: kind, x: from, y: top + number * thick, width: to - from, height: thick - 1, rx: 1 });
      bar.append(element("title", {}, `${row.name}: ${value.toFixed(3)}`));
      svg.append(bar);
    });
    svg.append(element("text", { x: width - 2, y: top + 12, "text-anchor": "end" }, shown(row.values.at(-1)[1])));
  });
  return svg;
}

// counts of equal bins between the ends; marks: [{at, kind, name}], drawn at the edge where they lie outside.
export function histogram(counts, ends, marks, label) {
  const [width, height, bottom] = [440, 190, 36];
  const far = Math.max(ends[1], ...marks.map((mark) => mark.at));
  // A mark far outside would flatten everything else: the axis reaches at most half as far again.
  const limit = Math.min(far, ends[1] + 0.5 * (ends[1] - ends[0]));
  const x = (value) => 8 + ((Math.min(value, limit) - ends[0]) / (limit - ends[0] || 1)) * (width - 16);
  const highest = Math.max(...counts, 1);
  const svg = drawing(width, height, label);
  const size = (ends[1] - ends[0]) / counts.length;
  counts.forEach((count, place) => {
    const tall = (count / highest) * (height - bottom - 42);
    const from = x(ends[0] + place * size);
    const wide = Math.max(0.5, x(ends[0] + (place + 1) * size) - from - 0.5);
    svg.append(element("rect", { class: "bar-clean", x: from, y: height - bottom - tall, width: wide, height: tall }));
  });
  svg.append(element("line", { class: "axis", x1: 8, x2: width - 8, y1: height - bottom, y2: height - bottom }));
  marks.forEach((mark, place) => {
    const at = x(mark.at);
    svg.append(element("line", { class: mark.kind, x1: at, x2: at, y1: 14 + 12 * place, y2: height - bottom }));
    const anchor = at > width / 2 ? "end" : "start";
    const beyond = mark.at > limit ? " →" : "";
    svg.append(element("text", { x: at + (anchor === "end" ? -5 : 5), y: 22 + 12 * place, "text-anchor": anchor }, mark.name + beyond));
  });
  svg.append(element("text", { x: 8, y: height - 20 }, shown(ends[0])));
  svg.append(element("text", { x: width - 8, y: height - 20, "text-anchor": "end" }, shown(limit)));
  return svg;
}

// values of log10 evidence at the numbers of pictures; the alarm level is a dashed line.
export function curve(points, level, label) {
  const [width, height, left, bottom] = [440, 220, 44, 30];
  const svg = drawing(width, height, label);
  const values = points.map(([, value]) => value);
  const [low, high] = [Math.min(-1, ...values), Math.max(level + 0.5, ...values)];
  const numbers = points.map(([number]) => number);
  const [first, last] = [numbers[0] ?? 0, Math.max(numbers.at(-1) ?? 1, (numbers[0] ?? 0) + 1)];
  const x = (number) => left + ((number - first) / (last - first)) * (width - left - 10);
  const y = (value) => 10 + ((high - value) / (high - low)) * (height - bottom - 10);
  for (const value of new Set([0, level])) {
    svg.append(element("line", { class: value === level ? "limit" : "axis", x1: left, x2: width - 10, y1: y(value), y2: y(value) }));
    svg.append(element("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value === 0 ? "1" : String(Math.round(10 ** value))));
  }
  svg.append(element("path", { class: "line", d: points.map(([number, value], at) => `${at ? "L" : "M"}${x(number).toFixed(1)} ${y(value).toFixed(1)}`).join(" ") }));
  svg.append(element("text", { x: left, y: height - 8 }, `picture ${first}`));
  svg.append(element("text", { x: width - 10, y: height - 8, "text-anchor": "end" }, `picture ${last}`));
  return svg;
}
