"use strict";
// Shows what /data says, about once a second. Texts are always set as text, never as markup, except
// the drawing, which the server has escaped and which is parsed as an image, not as a page.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const seen = { run: {}, graph: {}, curve: { rows: 0, last: {}, columns: {} }, status: {}, view: {} };
let versions = {}, recent = [], lostAt = 0, hover = {};

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

// -- rates: over the last seconds while it runs, over the whole run afterwards --------------------

function remember(status) {
  if (!status.operators) return;
  const last = recent[recent.length - 1];
  if (last && last.time === status.time) return;
  const items = {}, messages = {};
  for (const line of status.operators) items[line.name] = line.items;
  for (const line of status.resources || []) messages[line.name] = line.messages;
  recent.push({ time: status.time, items, messages });
  while (recent.length > 2 && status.time - recent[1].time > 5) recent.shift();
}

function rateOf(kind, name, total, mean) {
  const first = recent[0], last = recent[recent.length - 1];
  const over = seen.view.state !== "running";
  if (!over && recent.length > 1 && last.time - first.time > 0.5 && last[kind][name] >= first[kind][name]) {
    return (last[kind][name] - first[kind][name]) / (last.time - first.time);
  }
  return mean || total / (seen.status.seconds || seen.curve.last.seconds || Infinity);
}

// -- the graph --------------------------------------------------------------------------------

function drawGraph() {
  const graph = seen.graph, host = $("graph");
  if (!graph.svg) {
    host.replaceChildren(make("p", "empty", graph.error || "The graph has not been written yet."));
    return;
  }
  const picture = new DOMParser().parseFromString(graph.svg, "image/svg+xml").documentElement;
  host.replaceChildren(document.importNode(picture, true));
  graph.drawing = host.firstChild;
  graph.drawing.querySelectorAll("[data-box]").forEach((g) => {
    const box = graph.boxes[g.dataset.box];
    const part = (name) => g.querySelector("." + name);
    Object.assign(box, { g, live: part("live"), bar: part("bar") });
    if (box.queue && box.kind !== "background") box.bar.classList.add("fill");
  });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  graph.drawing.querySelectorAll("[data-edge]").forEach((g) => {
    const edge = graph.edges[g.dataset.edge], moving = g.querySelector(".moving");
    edge.g = g;
    // one period of the dots per second at speed 1, the speed follows the rate
    edge.motion = still ? null : moving.animate({ strokeDashoffset: [48, 0] }, { duration: 1000, iterations: Infinity });
  });
  document.querySelectorAll("#legend li").forEach((li) => {
    li.classList.toggle("used", !!graph.drawing.querySelector(li.dataset.for));
  });
  fitGraph();
}

// as wide as there is room, but never so small that it cannot be read: then it scrolls
function fitGraph() {
  const { drawing, width } = seen.graph;
  if (!drawing) return;
  const room = $("graph").clientWidth, smallest = innerWidth < 560 ? 0.72 : 0.8;
  drawing.setAttribute("width", Math.round(width * Math.max(smallest, Math.min(1.12, room / width))));
  drawing.removeAttribute("height");
}

function hottest(lines) {
  const worst = seen.status.bottleneck;
  if (!worst || !seen.graph.boxes) return null;
  const inside = (box) => worst.kind === "driver" ? box.where === "driver" && box.kind !== "background" && box.kind !== "queue"
    : worst.kind === "background" ? box.kind === "background" && box.groups.includes(worst.name)
    : box.where === "actors" && box.groups.includes(worst.name);
  let best = null;
  for (const box of seen.graph.boxes) {
    const busy = lines[box.id] ? lines[box.id].busy : 0;
    if (inside(box) && (!best || busy > best.busy)) best = { box, busy };
  }
  return best && best.box;
}

// messages are counted where they arrive: with several senders nobody knows who sent how many
function messageRate(edge, edges, groups, where) {
  const name = where[edge.to].groups[0], group = groups[name];
  const senders = new Set(edges.filter((one) => one.kind === "message" && where[one.to].groups[0] === name).map((one) => one.from));
  return group && senders.size === 1 ? rateOf("messages", name, group.messages) : 0;
}

function updateGraph() {
  const { graph, status } = seen;
  if (!graph.drawing) return;
  const lines = {}, queues = {}, groups = {};
  for (const line of status.operators || []) lines[line.name] = line;
  for (const queue of status.queues || []) queues[queue.name] = queue;
  for (const line of status.resources || []) groups[line.name] = line;
  const hot = hottest(lines), rates = {};
  for (const box of graph.boxes) {
    const line = lines[box.id], queue = queues[box.queue], words = [];
    let share = line ? line.utilisation : 0;
    if (line) {
      rates[box.id] = rateOf("items", box.id, line.items, line.rate);
      words.push(rate(rates[box.id]) + "/s");
    }
    if (box.kind === "group" && groups[box.groups[0]]) {
      const group = groups[box.groups[0]];
      words.push(rate(rateOf("messages", group.name, group.messages)) + " msg/s");
      share = group.utilisation;
    }
    if (queue && box.kind !== "background") {
      words.push(queue.depth + "/" + queue.capacity);
      share = queue.depth / queue.capacity;
    } else if (box.kind === "gather" && line && line.lag_max > 0) words.push("lag " + figure(line.lag_mean));
    else if (box.kind === "gather" && line && line.depth > 0) words.push(count(line.depth) + " ready");
    else if (share >= 0.005) words.push(percent(share));
    put(box.live, words.join(" · "));
    box.bar.style.transform = "scaleX(" + Math.min(1, share) + ")";
    box.g.classList.toggle("hot", box === hot);
  }
  const where = Object.fromEntries(graph.boxes.map((box) => [box.id, box]));
  for (const edge of graph.edges) {
    const speed = edge.kind === "message" ? messageRate(edge, graph.edges, groups, where) : rates[edge.from] || 0;
    edge.g.classList.toggle("flowing", speed > 0 && !!edge.motion);
    // on a scale of powers: a thousand items a second should not be a blur
    if (edge.motion) edge.motion.updatePlaybackRate(Math.min(6, 0.35 + 0.45 * Math.log2(1 + speed)));
  }
  put($("graph-aside"), seen.view.state === "running" ? "items per second, over the last 5 s; dots move faster where more pass" : "items per second, over the whole run");
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

function updateCurves() {
  const { columns, last } = seen.curve, keys = Object.keys(columns);
  const own = keys.filter((key) => key.endsWith("/return"));
  const several = own.length > 0, evaluated = "eval_return" in columns;
  const lines = (several ? own : ["return"]).map((key, tone) => ({
    name: several ? key.slice(0, -7) : evaluated ? "training" : "", points: pairs(columns.steps, columns[key] || []), tone,
  }));
  // an evaluation is one of earlier weights, and stands at their step
  const marks = (several ? own.map((key) => key.replace(/return$/, "eval_return")) : ["eval_return"]).map((key, tone) => ({
    name: several ? key.slice(0, -12) + " evaluated" : "evaluated", points: pairs(columns.eval_steps, columns[key] || []), tone, dots: true,
  }));
  const shown = [...lines, ...marks].filter((one) => one.points.length);
  const until = seen.run.until || {}, goal = several ? undefined : typeof until.return === "number" ? until.return : until.eval_return;
  if (shown.length) chart("curve", shown, { xName: "steps", yFormat: figure, goal: typeof goal === "number" ? goal : undefined });
  else blank("curve", last.episodes === undefined ? "No results yet." : `The mean return of 100 episodes: ${count(last.episodes)} so far.`);
  const speed = throughput(columns);
  if (speed.length > 1) chart("speed", [{ name: "", points: speed }], { xName: "seconds", yFormat: (v) => rate(v) + " steps/s", zero: true });
  else blank("speed", "No results yet.");
  const plain = new Set(["steps", "episodes", "seconds", "return", "eval_steps", "eval_return", ...own, ...own.map((key) => key.replace(/return$/, "eval_return"))]);
  const rest = keys.filter((key) => !plain.has(key)).sort();
  if (!rest.length) return;
  keep($("figures"), rest, () => make("div", "mini", make("p", "", make("span"), make("b")), make("div")), (node, key) => {
    put(node.children[0].children[0], key);
    node.title = key;
    put(node.children[0].children[1], figure(last[key]));
    let points = pairs(columns.steps, columns[key]);
    if (!points.length) points = pairs(columns[key].map((_, i) => i), columns[key]);
    if (points[0][0] === points[points.length - 1][0]) points = points.map(([, y], i) => [i, y]);
    const ys = points.map((p) => p[1]), low = Math.min(...ys), high = Math.max(...ys);
    const first = points[0][0], wide = points[points.length - 1][0] - first || 1;
    const picture = svg("svg", { viewBox: "0 0 200 44", preserveAspectRatio: "none" });
    const flat = high === low;
    svg("path", { class: "line0", d: pathOf(points, (v) => 200 * (v - first) / wide, (v) => (flat ? 22 : 41 - 38 * (v - low) / (high - low))) }, picture);
    node.children[1].replaceChildren(picture);
  });
}

// steps a second in equal stretches of time, none shorter than the rows are apart
function throughput(columns) {
  const points = pairs(columns.seconds, columns.steps || []);
  if (points.length < 3) return [];
  const begin = points[0][0], span = points[points.length - 1][0] - begin;
  const bins = Math.max(2, Math.min(60, Math.floor(points.length / 3)));
  const at = (time) => {
    let i = 1;
    while (i < points.length - 1 && points[i][0] < time) i++;
    const [a, b] = [points[i - 1], points[i]];
    return a[1] + (b[1] - a[1]) * (b[0] > a[0] ? Math.min(1, (time - a[0]) / (b[0] - a[0])) : 1);
  };
  const found = [];
  for (let i = 0; i < bins; i++) {
    const [from, to] = [begin + span * i / bins, begin + span * (i + 1) / bins];
    if (to > from) found.push([(from + to) / 2, Math.max(0, (at(to) - at(from)) / (to - from))]);
  }
  return found;
}

// -- the rest ---------------------------------------------------------------------------------

function updateTiles() {
  const { last, columns } = seen.curve, { status, run } = seen;
  const lines = status.operators || [], answered = lines.filter((line) => line.lag_max > 0);
  const items = answered.reduce((sum, line) => sum + line.items, 0);
  const lag = answered.reduce((sum, line) => sum + line.lag_mean * line.items, 0) / (items || 1);
  const most = Math.max(0, ...lines.map((line) => line.lag_max));
  const points = pairs(columns.seconds, columns.steps || []), over = seen.view.state !== "running";
  const end = points[points.length - 1] || [0, 0];
  const from = over ? [0, 0] : points.find((p) => p[0] >= end[0] - 10) || [0, 0];
  const speed = (end[1] - from[1]) / (end[0] - from[0]) || end[1] / end[0];
  const until = run.until || {}, goal = (key, form) => (typeof until[key] === "number" ? ", goal " + form(until[key]) : "");
  const elapsed = last.seconds || status.seconds;
  const few = last.episodes < 100, best = status.best || {}, byEvaluation = best.by === "evaluation";
  const evaluation = last.eval_return === undefined ? [] : [[last.eval_return, "Evaluated" + goal("eval_return", figure), figure(last.eval_return),
    "at " + count(last.eval_steps) + " steps" + (byEvaluation && best.steps !== last.eval_steps ? "; best " + figure(best.score) + " at " + count(best.steps) : "")]];
  const tiles = [
    [last.return, "Return" + goal("return", figure), figure(last.return), few ? `mean of ${count(last.episodes)} episode${last.episodes === 1 ? "" : "s"} so far` : "mean of 100 episodes"],
    ...evaluation,
    [last.steps, "Steps" + goal("steps", count), count(last.steps), "of the environments"],
    [speed, "Steps per second", isFinite(speed) ? rate(speed) : "–", over ? "mean of the run" : "over the last 10 s"],
    [last.episodes, "Episodes", count(last.episodes), "ended"],
    [lag, "Staleness", lines.length ? figure(lag) : "–", most ? "updates behind, at most " + most : "updates behind"],
    [elapsed, "Time" + goal("seconds", duration), elapsed === undefined ? "–" : duration(elapsed), count(seen.curve.rows) + " results"],
  ];
  keep($("tiles"), tiles, () => make("div", "tile", make("span"), make("b"), make("span")), (tile, texts) => {
    const [exact, ...shown] = texts;
    shown.forEach((text, i) => put(tile.children[i], text));
    tile.children[1].title = Number.isFinite(exact) ? exact.toLocaleString("en") : "";
  });
}

function updateResources() {
  const { status } = seen, worst = status.bottleneck || {};
  meters($("resources"), (status.resources || []).map((line) => ({
    name: line.kind === "driver" ? "driver" : line.name + (line.count > 1 ? " × " + line.count : "") + (line.kind === "background" ? ", in the background" : ""),
    text: (line.messages ? rate(rateOf("messages", line.name, line.messages)) + " messages/s · " : "") + percent(line.utilisation),
    share: line.utilisation,
    kind: line.kind + (line.kind === worst.kind && line.name === worst.name ? " hot" : ""),
  })));
  $("queues-title").hidden = !(status.queues || []).length;
  meters($("queues"), (status.queues || []).map((queue) => ({
    name: queue.name, text: `${queue.depth} of ${queue.capacity}`, share: queue.depth / queue.capacity, kind: "queue",
  })));
}

function updateLedger() {
  const ledger = seen.status.ledger || { lines: [], balanced: true };
  put($("ledger-aside"), !ledger.lines.length ? "" : ledger.balanced
    ? "balanced: every request is in exactly one state" : "does not balance: please report this");
  keep($("ledger"), ledger.lines,
    () => make("div", "account", make("p", "", make("b"), make("span")), make("div", "stack"), make("ul", "parts")),
    (node, line) => {
      put(node.children[0].children[0], line.source + (line.branch ? " → " + line.branch : ""));
      put(node.children[0].children[1], count(line.produced) + " requested");
      const parts = [
        ...Object.entries(line.done).map(([what, n]) => [what, what, n]),
        ["held", "held", line.held], ["in-flight", "in flight", line.in_flight],
        ...Object.entries(line.dropped).map(([why, n]) => ["dropped", "dropped: " + why.replaceAll("_", " "), n]),
      ].filter(([, , n]) => n > 0);
      keep(node.children[1], parts, () => make("i"), (bar, [kind, , n]) => { bar.className = kind; bar.style.flex = n + " 1 0"; });
      keep(node.children[2], parts, () => make("li", "", make("b"), make("span")), (li, [kind, what, n]) => {
        li.className = kind;
        put(li.children[0], count(n));
        put(li.children[1], " " + what);
      });
    });
}

function updateTables() {
  const { status } = seen, workers = status.workers || [], seconds = status.seconds || Infinity;
  const known = seen.view.state !== "died";
  const tone = { live: known ? "good" : "soft", waiting: "warn", leaving: "warn", gone: "bad", ended: "soft" };
  const said = { live: known ? "working" : "unknown", waiting: "restarting", leaving: "leaving", gone: "gone", ended: "ended" };
  const restarts = workers.reduce((sum, w) => sum + w.restarts, 0);
  put($("workers-aside"), workers.length ? `${workers.length} actors, ${restarts} restart${restarts === 1 ? "" : "s"}` : "");
  table($("workers"), [["name", "left"], ["state", "left"], ["busy"], ["open"], ["restarts"], ["errors"], ["pid", "minor"]],
    workers.map((w) => [
      w.name, [said[w.status] || w.status, tone[w.status] || ""], percent(Math.min(1, w.busy / seconds)), w.in_flight,
      [w.restarts, w.restarts ? "warn" : "soft"], [w.errors, w.errors ? "bad" : "soft"], [w.pid || "–", "soft"],
    ]));
  const lines = status.operators || [];
  const hot = seen.graph.boxes && hottest(Object.fromEntries(lines.map((line) => [line.name, line])));
  table($("operators"), [["operator", "left"], ["where", "left minor"], ["items"], ["per second"], ["busy"], ["waiting"], ["open"], ["lag, mean (max)"]],
    lines.map((line) => [
      line.name, [line.where, "soft"], count(line.items), rate(rateOf("items", line.name, line.items, line.rate)), percent(line.utilisation),
      line.capacity ? `${line.depth} of ${line.capacity}` : line.depth || "", line.in_flight || "",
      line.lag_max ? `${figure(line.lag_mean)} (${line.lag_max})` : "",
    ]), (i) => (hot && hot.id === lines[i].name ? "hot" : ""));
}

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

function updateFacts() {
  const { run } = seen, name = run.algorithm ? run.algorithm + (run.env ? " on " + run.env : "") : "run";
  put($("name"), name);
  put($("about"), [run.engine && run.engine + " engine", run.seed !== undefined && "seed " + run.seed, run.created && "started " + when(run.created)].filter(Boolean).join(" · "));
  const facts = [];
  for (const [key, value] of Object.entries(run)) {
    if (["config", "format", "summary"].includes(key)) continue;
    if (key === "created") facts.push(["started", when(value)]);
    else if (key === "versions" || key === "machine") for (const [k, v] of Object.entries(value || {})) facts.push([k.replaceAll("_", " "), key === "versions" ? String(v) : plain(v)]);
    else facts.push([key, key === "seed" ? String(value) : plain(value)]);
  }
  list($("facts"), facts);
  const settings = flat(run.config || {}, "").map(([key, value]) => make("div", "", make("dt", "", key), make("dd", "", plain(value))));
  $("config").replaceChildren(...(settings.length ? settings : [make("p", "empty", "None were written down.")]));
}

function when(text) {
  const time = new Date(text);
  return isNaN(time) ? String(text) : time.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

function updateState() {
  const { status, view } = seen, state = lostAt ? "offline" : view.state || "starting", { last } = seen.curve;
  document.body.dataset.state = state;
  put($("state"), { died: "process gone", offline: "view closed" }[state] || state);
  const age = view.age + (Date.now() - view.at) / 1000, since = duration(Math.max(0, Math.round(age)));
  put($("fresh"), ["running", "starting"].includes(state) || !status.time ? "" : `last news ${age < 86400 ? since + " ago" : when(status.time * 1000)}`);
  const done = last.steps ? ` after ${count(last.steps)} steps and ${duration(last.seconds)}${last.return === undefined ? "" : ", return " + figure(last.return)}.` : ".";
  const words = {
    starting: "Waiting for the first news of this run.",
    stalled: `No news for ${since}. Process ${status.pid} on ${status.host} ${view.process === "there" ? "is still there: it hangs, is paused" : "cannot be seen from here: it has ended, hangs"}, or works on one very long step.`,
    died: `Process ${status.pid} is gone and did not say why; perhaps it was killed, or the machine ran out of memory. Last news ${since} ago.`,
    failed: status.error || "The run has failed.",
    finished: "Finished" + done + " " + (status.seconds ? status.verdict : ""),
    stopped: "Stopped" + done + " " + (status.seconds ? status.verdict : ""),
    offline: "The view has been closed, or its process has ended. What is shown is what was known last.",
  };
  const slow = Object.entries(status.callbacks || {}).filter(([, own]) => last.seconds > 1 && own.seconds > 0.1 * last.seconds)
    .map(([name, own]) => ` Callback ${name} takes ${percent(own.seconds / last.seconds)} of the time.`).join("");
  const failed = (status.evaluation || {}).failed ? ` ${status.evaluation.failed} evaluation${status.evaluation.failed === 1 ? "" : "s"} failed.` : "";
  const still = status.seconds === 0 && last.steps > 0 && "No time passes on the clock of this engine, so nothing is busy and nothing is a bottleneck.";
  put($("word"), (words[state] || still || status.verdict || "") + failed + slow);
  $("word").classList.toggle("hot", !!status.bottleneck);
  document.title = (state === "running" ? "" : state + " · ") + $("name").textContent + (last.return === undefined ? "" : " · " + figure(last.return));
}

function update(news) {
  Object.assign(versions, news.versions);
  for (const part of ["run", "graph", "curve", "status"]) if (part in news) seen[part] = news[part];
  seen.view = { ...news.view, at: Date.now() };
  remember(seen.status);
  if ("run" in news) updateFacts();
  if ("graph" in news) drawGraph();
  updateGraph();
  if ("curve" in news || "run" in news) updateCurves();
  updateTiles();
  updateResources();
  updateLedger();
  updateTables();
  updateState();
}

async function poll() {
  let news = null;
  try {
    const answer = await fetch("/data?" + new URLSearchParams(versions), { cache: "no-store", signal: AbortSignal.timeout(8000) });
    if (answer.ok) news = await answer.json();
  } catch {
    // said below
  }
  lostAt = news ? 0 : lostAt || Date.now();
  try {
    if (news) update(news);
    else updateState();
  } catch (error) {
    console.error(error); // one odd row should not end the view
  }
  const pause = news && news.read < 1 ? 50 : 1000; // a long file is read in several steps
  if (!document.hidden) setTimeout(poll, pause);
  else document.addEventListener("visibilitychange", poll, { once: true });
}

addEventListener("resize", () => { fitGraph(); updateCurves(); });
setTimeout(poll, 1000);
update(JSON.parse($("data").textContent));
