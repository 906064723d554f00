"use strict";
// What the pages have in common: figures as people read them, elements, charts. Texts are always set as
// text, never as markup.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const HERE = location.pathname.replace(/\/$/, ""); // data and files are below the page
let hover = {};

// -- numbers ----------------------------------------------------------------------------------

function count(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size < 10000) return Math.round(value).toLocaleString("en");
  const [unit, by] = size < 999500 ? ["k", 1e3] : size < 999.5e6 ? ["M", 1e6] : ["G", 1e9];
  return (value / by).toLocaleString("en", { maximumSignificantDigits: 3 }) + unit;
}

function figure(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return count(value);
  const text = size !== 0 && size < 0.001 ? value.toExponential(1)
    : value.toLocaleString("en", size < 100 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 1 });
  return text.replaceAll("-", "−");
}

function rate(value) {
  if (!value) return "0";
  if (value < 0.095) return "<0.1";
  return value < 9.95 ? value.toFixed(1) : count(value);
}

const percent = (share) => (share > 0 && share < 0.01 ? "<1" : Math.round(100 * share)) + "%";

function duration(seconds) {
  if (!isFinite(seconds)) return "–";
  if (seconds < 10) return seconds.toFixed(1) + " s";
  if (seconds < 120) return Math.round(seconds) + " s";
  const minutes = Math.floor(seconds / 60), two = (n) => String(n).padStart(2, "0");
  if (minutes < 60) return minutes + ":" + two(Math.floor(seconds % 60)) + " min";
  return Math.floor(minutes / 60) + ":" + two(minutes % 60) + " h";
}

function bytes(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  return value >= 2 ** 30 ? figure(value / 2 ** 30) + " GiB" : Math.round(value / 2 ** 20) + " MiB";
}

// -- small helpers ----------------------------------------------------------------------------

function put(node, text) {
  text = String(text);
  if (node.textContent !== text) node.textContent = text;
}

function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

function svg(tag, attributes, parent) {
  const node = document.createElementNS(SVG, tag);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (parent) parent.append(node);
  return node;
}

// as many children as there are rows, each made once and changed from then on
function keep(parent, rows, create, change) {
  if (parent.firstElementChild && parent.firstElementChild.classList.contains("empty")) parent.replaceChildren();
  while (parent.children.length > rows.length) parent.lastElementChild.remove();
  rows.forEach((row, i) => change(parent.children[i] || parent.appendChild(create(row)), row, i));
}

// columns: [heading, class]; rows: lists of a text or [text, class]
function table(node, columns, rows, rowClass) {
  if (!node.tHead) {
    node.append(make("thead", "", make("tr", "", ...columns.map(([name, kind]) => make("th", kind, name)))), make("tbody"));
  }
  keep(node.tBodies[0], rows, () => make("tr", "", ...columns.map(([, kind]) => make("td", kind))), (tr, row, i) => {
    tr.className = rowClass ? rowClass(i) : "";
    row.forEach((cell, k) => {
      const [text, kind] = Array.isArray(cell) ? cell : [cell, ""];
      put(tr.children[k], text);
      tr.children[k].className = (columns[k][1] || "") + " " + kind;
    });
  });
}

function meters(node, rows) {
  keep(node, rows,
    () => make("div", "", make("p", "", make("span"), make("span")), make("i", "", make("b"))),
    (row, { name, text, share, kind }) => {
      row.className = "meter-row " + kind;
      put(row.children[0].children[0], name);
      put(row.children[0].children[1], text);
      row.children[1].firstChild.style.transform = "scaleX(" + Math.max(0, Math.min(1, share || 0)) + ")";
    });
}

// -- charts -----------------------------------------------------------------------------------

function ticks(low, high, about) {
  const rough = (high - low) / about || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-6; n++) found.push(n * step + 0); // + 0: no minus before zero
  return found;
}

function pathOf(points, x, y) {
  let path = "", pen = "M";
  for (const [a, b] of points) {
    path += pen + x(a).toFixed(1) + " " + y(b).toFixed(1);
    pen = "L";
  }
  return path;
}

// series: {name, points: [[x, y], ...]}; aside says the newest values, or those under the pointer
function chart(id, series, { xName, yFormat, goal, zero }) {
  const host = $(id), width = host.clientWidth, height = host.clientHeight;
  const all = series.flatMap((one) => one.points);
  const ys = all.map((p) => p[1]).concat(goal === undefined ? [] : [goal]).concat(zero ? [0] : []);
  let low = Math.min(...ys), high = Math.max(...ys);
  if (low === high) [low, high] = [zero ? low : low - (Math.abs(low) / 2 || 1), high + (Math.abs(high) / 2 || 1)];
  const margin = (high - low) * 0.06;
  [low, high] = [zero ? low : low - margin, high + margin];
  let first = Math.min(...all.map((p) => p[0])), last = Math.max(...all.map((p) => p[0]));
  if (first === last) [first, last] = [first - 0.5, last + 0.5];
  const box = { left: 46, right: width - 12, top: 8, bottom: height - 34 };
  const x = (v) => box.left + (box.right - box.left) * (v - first) / (last - first);
  const y = (v) => box.bottom - (box.bottom - box.top) * (v - low) / (high - low);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const tick of ticks(low, high, 4)) {
    svg("line", { class: "gridline", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }, picture);
    svg("text", { x: box.left - 8, y: y(tick) + 4, "text-anchor": "end" }, picture).textContent = figure(tick);
  }
  for (const tick of ticks(first, last, width < 420 ? 3 : 5)) {
    svg("text", { x: x(tick), y: box.bottom + 17, "text-anchor": "middle" }, picture).textContent = last - first < 8 ? figure(tick) : count(tick);
  }
  svg("text", { x: (box.left + box.right) / 2, y: height - 2, "text-anchor": "middle" }, picture).textContent = xName;
  if (goal !== undefined) {
    svg("line", { class: "goal", x1: box.left, x2: box.right, y1: y(goal), y2: y(goal) }, picture);
    svg("text", { class: "goal-name", x: box.left + 6, y: y(goal) + 14 }, picture).textContent = "goal " + figure(goal);
  }
  series.forEach((one, i) => {
    const tone = (one.tone === undefined ? i : one.tone) % 6;
    svg("path", { class: "line" + tone + (one.dots ? " between" : ""), d: pathOf(one.points, x, y) }, picture);
    if (one.dots) for (const [a, b] of one.points) svg("circle", { class: "dot" + tone, cx: x(a), cy: y(b), r: 3.5 }, picture);
  });
  const cross = svg("line", { class: "cross", y1: box.top, y2: box.bottom }, picture);
  const tell = () => {
    const at = hover[id] === undefined ? null : first + (last - first) * (hover[id] * width - box.left) / (box.right - box.left);
    const inside = at !== null && at >= first && at <= last;
    cross.style.visibility = inside ? "visible" : "hidden";
    const words = series.map((one, i) => {
      const point = inside ? one.points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a)) : one.points[one.points.length - 1];
      if (inside && i === 0) ["x1", "x2"].forEach((end) => cross.setAttribute(end, x(point[0])));
      const where = inside && i === series.length - 1 ? " at " + count(point[0]) + " " + xName : "";
      return make("span", "key key" + (one.tone === undefined ? i : one.tone) % 6 + (one.dots ? " ring" : ""), (one.name ? one.name + " " : "") + yFormat(point[1]) + where);
    });
    $(id + "-aside").replaceChildren(...words);
  };
  picture.addEventListener("pointermove", (event) => {
    const place = picture.getBoundingClientRect();
    hover[id] = (event.clientX - place.left) / place.width;
    tell();
  });
  picture.addEventListener("pointerleave", () => { delete hover[id]; tell(); });
  host.replaceChildren(picture);
  tell();
}

function blank(id, words) {
  $(id).replaceChildren(make("p", "empty", words));
  $(id + "-aside").replaceChildren();
}

const pairs = (xs, ys) => (xs || []).map((x, i) => [x, ys[i]]).filter(([a, b]) => a !== null && b !== null && b !== undefined);

function plain(value) {
  if (value === null) return "none";
  if (typeof value === "number") return Math.abs(value) >= 10000 || Number.isInteger(value) ? value.toLocaleString("en") : String(value);
  if (Array.isArray(value)) return value.map(plain).join(", ") || "none";
  if (typeof value === "object" && !Object.keys(value).length) return "none";
  if (typeof value === "object") return Object.entries(value).map(([k, v]) => `${k} ${plain(v)}`).join(", ");
  return String(value);
}

function flat(settings, prefix) {
  return Object.entries(settings).flatMap(([key, value]) => value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length
    ? flat(value, prefix + key + ".") : [[prefix + key, value]]);
}

function list(node, entries) {
  if (!entries.length) entries = [["", "Nothing was written down."]];
  node.replaceChildren(...entries.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
}

function when(text) {
  const time = new Date(text);
  return isNaN(time) ? String(text) : time.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

// shown: [address, name, of which run, the run's address]
function films(shown) {
  return make("div", "films", ...shown.map(([address, name, run, there]) => {
    const film = /\.(mp4|webm)$/i.test(name), node = make(film ? "video" : "img");
    if (film) Object.assign(node, { controls: true, preload: "metadata", loop: true, muted: true, playsInline: true });
    else Object.assign(node, { loading: "lazy", alt: name });
    node.src = film ? address + "#t=0.1" : address;  // or browsers show a grey field until it is played
    const link = make("a", "", name);
    link.href = address;
    const words = [link];
    if (run) {
      const whose = make("a", "", run);
      whose.href = there;
      words.push(" of ", whose);
    }
    return make("figure", "", node, make("figcaption", "", ...words));
  }));
}
