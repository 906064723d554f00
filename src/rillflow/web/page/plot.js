// A chart of many lines: zoom by dragging, back by a double click, the values under the pointer.

const zooms = {}; // by the chart's name: [first, last] of x

// series: {name, tone, dashed, points, lines: [[class, points], ...], band: [[x, low, high], ...]}
function plot(host, name, series, { xName, yFormat, xFormat, goal, zero }) {
  const width = host.clientWidth, height = host.clientHeight;
  const all = series.flatMap((one) => [one.points, ...(one.lines || []).map((line) => line[1])]).filter((points) => points.length);
  if (!all.length) {
    host.replaceChildren(make("p", "empty", "No results yet."));
    return;
  }
  const zoom = zooms[name];
  let first = zoom ? zoom[0] : Infinity, last = zoom ? zoom[1] : -Infinity;
  if (!zoom) for (const points of all) for (const [a] of points) { first = Math.min(first, a); last = Math.max(last, a); }
  if (first === last) [first, last] = [first - 0.5, last + 0.5];
  let low = zero ? 0 : Infinity, high = zero ? 0 : -Infinity;
  const see = (value) => { low = Math.min(low, value); high = Math.max(high, value); };
  for (const points of all) for (const [a, b] of points) if (a >= first && a <= last) see(b);
  if (goal !== undefined && !zoom) see(goal);
  if (low === Infinity) [low, high] = [0, 1];
  if (low === high) [low, high] = [zero ? low : low - (Math.abs(low) / 2 || 1), high + (Math.abs(high) / 2 || 1)];
  const margin = (high - low) * 0.06;
  [low, high] = [zero && low === 0 ? 0 : low - margin, high + margin];
  const box = { left: 46, right: width - 12, top: 8, bottom: height - 34 };
  const x = (v) => box.left + (box.right - box.left) * (v - first) / (last - first);
  const y = (v) => box.bottom - (box.bottom - box.top) * (v - low) / (high - low);
  const back = (pixel) => first + (last - first) * Math.max(0, Math.min(1, (pixel - box.left) / (box.right - box.left)));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "plot" });
  const clip = svg("clipPath", { id: "clip-" + name }, svg("defs", {}, picture));
  svg("rect", { x: box.left, y: box.top - 4, width: Math.max(0, box.right - box.left), height: Math.max(0, box.bottom - box.top + 8) }, clip);
  for (const tick of ticks(low, high, 4)) {
    svg("line", { class: "gridline", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }, picture);
    svg("text", { x: box.left - 8, y: y(tick) + 4, "text-anchor": "end" }, picture).textContent = yFormat(tick);
  }
  const xText = xFormat || ((v) => (last - first < 8 ? figure(v) : count(v)));
  for (const tick of ticks(first, last, width < 420 ? 3 : 6)) {
    svg("text", { x: x(tick), y: box.bottom + 17, "text-anchor": "middle" }, picture).textContent = xText(tick);
  }
  svg("text", { x: (box.left + box.right) / 2, y: height - 2, "text-anchor": "middle" }, picture).textContent = xName;
  const inside = svg("g", { "clip-path": `url(#clip-${name})` }, picture);
  if (goal !== undefined && goal >= low && goal <= high) {
    svg("line", { class: "goal", x1: box.left, x2: box.right, y1: y(goal), y2: y(goal) }, inside);
    svg("text", { class: "goal-name", x: box.left + 6, y: y(goal) + 14 }, inside).textContent = "goal " + figure(goal);
  }
  for (const one of series) {
    const group = svg("g", { class: "tone" + one.tone }, inside);
    if (one.band && one.band.length > 1) {
      const edge = one.band.map(([a, , b]) => [a, b]).concat(one.band.map(([a, b]) => [a, b]).reverse());
      svg("path", { class: "band", d: pathOf(edge, x, y) + "Z" }, group);
    }
    for (const [kind, points] of one.lines || []) svg("path", { class: kind, d: pathOf(points, x, y) }, group);
    svg("path", { class: one.className || "mean" + (one.dashed ? " dashed" : ""), d: pathOf(one.points, x, y) }, group);
    one.spot = svg("circle", { class: "spot", r: 4 }, group);
  }
  const cross = svg("line", { class: "cross", y1: box.top, y2: box.bottom }, inside);
  const chosen = svg("rect", { class: "select", y: box.top, height: Math.max(0, box.bottom - box.top), width: 0 }, inside);
  const told = host.parentElement.querySelector(".values");
  const tell = (pixel) => {
    const at = pixel === null || pixel < box.left || pixel > box.right ? null : back(pixel);
    cross.style.visibility = at === null ? "hidden" : "visible";
    if (at !== null) for (const end of ["x1", "x2"]) cross.setAttribute(end, pixel);
    series.forEach((one, i) => {
      const point = at === null || !one.points.length ? one.points[one.points.length - 1] : nearest(one.points, at);
      const there = at !== null && point && Math.abs(x(point[0]) - pixel) < 30;
      one.spot.style.visibility = there ? "visible" : "hidden";
      if (there) { one.spot.setAttribute("cx", x(point[0])); one.spot.setAttribute("cy", y(point[1])); }
      if (told && told.children[i]) put(told.children[i].lastChild, point && (at === null || there) ? " " + yFormat(point[1]) : "");
    });
  };
  let from = null;
  const place = (event) => { const r = picture.getBoundingClientRect(); return (event.clientX - r.left) * width / r.width; };
  picture.addEventListener("pointerdown", (event) => {
    from = place(event);
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointermove", (event) => {
    const at = place(event);
    hover[name] = at;
    tell(at);
    if (from === null) return;
    chosen.setAttribute("x", Math.min(from, at));
    chosen.setAttribute("width", Math.abs(at - from));
  });
  picture.addEventListener("pointerup", (event) => {
    const at = place(event), begin = from;
    from = null;
    if (begin === null || Math.abs(at - begin) < 8) return;
    const ends = [back(Math.min(begin, at)), back(Math.max(begin, at))];
    if (ends[1] > ends[0]) zoomed(name, ends);
  });
  picture.addEventListener("pointercancel", () => { from = null; chosen.setAttribute("width", 0); });
  picture.addEventListener("pointerleave", () => { delete hover[name]; if (from === null) tell(null); });
  picture.addEventListener("dblclick", () => zoomed(name, null));
  picture.dragging = () => from !== null;
  host.replaceChildren(picture);
  tell(hover[name] === undefined ? null : hover[name]);
}

function nearest(points, at) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= at) low = middle; else high = middle;
  }
  return Math.abs(points[low][0] - at) <= Math.abs(points[high][0] - at) ? points[low] : points[high];
}

// exponential, without the pull towards the first value
function smoothed(points, weight) {
  if (!weight) return points;
  let sum = 0, total = 0;
  return points.map(([a, b]) => {
    sum = sum * weight + b * (1 - weight);
    total = total * weight + (1 - weight);
    return [a, sum / total];
  });
}

function valueAt(points, at) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= at) low = middle; else high = middle;
  }
  const [a, b] = [points[low], points[high]];
  return b[0] > a[0] ? a[1] + (b[1] - a[1]) * (at - a[0]) / (b[0] - a[0]) : b[1];
}

// where all have values: the mean, and from the lowest to the highest
function meanAndBand(curves) {
  const begin = Math.max(...curves.map((points) => points[0][0])), end = Math.min(...curves.map((points) => points[points.length - 1][0]));
  const mean = [], band = [];
  for (let i = 0; i <= 160 && end > begin; i++) {
    const at = begin + (end - begin) * i / 160, values = curves.map((points) => valueAt(points, at));
    mean.push([at, values.reduce((a, b) => a + b, 0) / values.length]);
    band.push([at, Math.min(...values), Math.max(...values)]);
  }
  return { mean, band };
}
