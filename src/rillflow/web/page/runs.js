// Shows what /data says of all runs under a directory, about once a second.

const runs = {}, curves = {}, machines = {}, tones = {}, off = new Set();
let order = [], names = [], session = "", since = "", leftOut = 0, lostAt = 0, readAll = 1;
let sorting = { key: "", down: true };
const RANK = { running: 0, starting: 1, stalled: 2, died: 3, failed: 3, stopped: 4, finished: 5 };
const OVER = { steps: "steps", seconds: "seconds of training", episodes: "episodes" };

const toneOf = (group) => (group in tones ? tones[group] : (tones[group] = Object.keys(tones).length));
const groupOf = (run) => run.group || run.name;
const envOf = (run) => run.env || "";

function wanted() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  return order.filter((key) => {
    const run = runs[key], text = [run.name, groupOf(run), envOf(run), run.state, "seed " + run.seed].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

// -- curves -----------------------------------------------------------------------------------

function figuresThere() {
  const found = new Set();
  for (const key of order) for (const name of Object.keys(curves[key] || {})) found.add(name);
  for (const name of ["steps", "seconds", "episodes", "eval_steps", "time"]) found.delete(name);
  return ["return", "eval_return", ...[...found].sort()].filter((name, i, all) => found.has(name) && all.indexOf(name) === i);
}

function fillFigures() {
  const select = $("figure"), there = figuresThere();
  if (there.join() === [...select.options].map((one) => one.value).join()) return;
  const before = select.value;
  select.replaceChildren(...there.map((name) => { const option = make("option", "", name.replaceAll("_", " ")); option.value = name; return option; }));
  select.value = there.includes(before) ? before : there[0] || "";
}

function pointsOf(key) {
  const columns = curves[key] || {}, name = $("figure").value;
  const over = name.startsWith("eval_") && $("over").value === "steps" && columns.eval_steps ? "eval_steps" : $("over").value;
  const points = pairs(columns[over], columns[name] || []);
  return points.filter((point, i) => i === points.length - 1 || points[i + 1][0] > point[0]);
}

function seriesOf(keys) {
  const weight = Number($("smooth").value), each = $("as").value === "run", groups = new Map();
  for (const key of keys) {
    const raw = pointsOf(key);
    if (!raw.length) continue;
    const name = each ? runs[key].name : groupOf(runs[key]);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push({ key, raw, points: smoothed(raw, weight) });
  }
  return [...groups].map(([name, members]) => {
    const number = toneOf(each ? "run " + name : name), tone = number % 8, dashed = number >= 8;
    if (members.length === 1) {
      const lines = weight ? [["raw", members[0].raw]] : [];
      return { name, tone, dashed, points: members[0].points, lines, count: 1 };
    }
    const { mean, band } = meanAndBand(members.map((one) => one.points));
    return { name, tone, dashed, points: mean, band, lines: members.map((one) => ["thin", one.points]), count: members.length };
  });
}

const lastOf = (one) => (one.points.length ? one.points[one.points.length - 1][1] : -Infinity);

function updateCurves() {
  fillFigures();
  const shown = wanted().filter((key) => !off.has(key)), by = new Map();
  for (const key of shown) {
    if (!by.has(envOf(runs[key]))) by.set(envOf(runs[key]), []);
    by.get(envOf(runs[key])).push(key);
  }
  const panels = [...by].map(([env, keys]) => ({ env, keys, series: seriesOf(keys).sort((a, b) => lastOf(b) - lastOf(a)) })).filter((one) => one.series.length);
  const host = $("curves");
  if (!panels.length) {
    host.replaceChildren(make("p", "empty", order.length ? "No results yet." : "No runs yet: rillflow train ppo CartPole-v1 begins one."));
    put($("curves-aside"), "");
    return;
  }
  if ([...host.querySelectorAll(".plot")].some((one) => one.dragging())) return; // not under the user's finger
  put($("curves-aside"), "drag to zoom in, double click to zoom out" + ($("as").value === "group" && panels.some((one) => one.series.some((s) => s.count > 1)) ? "; bands reach from the lowest to the highest seed" : ""));
  keep(host, panels, () => make("div", "panel", make("h3", ""), make("div", "chart"), make("p", "legend-line values")), (node, { env, keys, series }, i) => {
    const [title, chartHost, legend] = node.children;
    const back = zooms["c" + i] ? [make("button", "", "zoom out")] : [];
    back.forEach((button) => { button.type = "button"; button.addEventListener("click", () => zoomed("c" + i, null)); });
    title.replaceChildren(make("span", "", env || "no environment"), make("span", "aside", $("figure").value.replaceAll("_", " ")), ...back);
    keep(legend, series, () => make("span", "", make("span"), make("small"), make("span")), (line, one) => {
      line.className = "tone" + one.tone;
      put(line.children[0], (one.dashed ? "╌ " : "") + one.name);
      put(line.children[1], one.count > 1 ? ` ×${one.count} ` : " ");
    });
    const goals = new Set(keys.map((key) => runs[key].goal)), goal = goals.size === 1 && $("figure").value.endsWith("return") ? [...goals][0] : null;
    plot(chartHost, "c" + i, series, { xName: OVER[$("over").value], yFormat: figure, goal: goal === null ? undefined : goal });
  });
}

function zoomed(name, ends) {
  if (ends) zooms[name] = ends; else delete zooms[name];
  if (name.startsWith("m")) updateMachine(); else updateCurves();
}

// -- the table --------------------------------------------------------------------------------

const speedOf = (run) => (run.last.seconds > 0 ? run.last.steps / run.last.seconds : undefined);
const failed = (run) => run.error && ["failed", "died"].includes(run.state);
const limitOf = (run) => {
  if (failed(run)) return run.error;
  if (!run.bottleneck) return run.verdict ? "none" : "";
  return run.bottleneck.name + (run.bottleneck.utilisation === null ? "" : " " + percent(run.bottleneck.utilisation));
};
const COLUMNS = [
  ["", "left", null],
  ["run", "left", (run) => run.name],
  ["what", "left wide-only", groupOf],
  ["seed", "wide-only", (run) => Number(run.seed)],
  ["state", "left", (run) => (run.state in RANK ? RANK[run.state] : 9)],
  ["return", "", (run) => run.last.return],
  ["curve", "wide-only", null],
  ["steps", "wide-only", (run) => run.last.steps],
  ["steps/s", "wide-only", speedOf],
  ["time", "wide-only", (run) => run.last.seconds],
  ["bottleneck", "left wide-only", limitOf],
  ["CPU", "wide-only", (run) => run.machine.cpu],
  ["memory", "wide-only", (run) => run.machine.memory],
];

function sorted(keys) {
  const column = COLUMNS.find(([name]) => name === sorting.key), value = column && column[2];
  if (!value) return [...keys].sort((a, b) => (runs[a].state !== "running") - (runs[b].state !== "running"));
  const known = (v) => v !== undefined && v !== null && v === v;
  return [...keys].sort((a, b) => {
    const [x, y] = [value(runs[a]), value(runs[b])];
    if (!known(x) || !known(y)) return known(y) - known(x);
    return (x < y ? -1 : x > y ? 1 : 0) * (sorting.down ? -1 : 1);
  });
}

function header(node) {
  const head = node.tHead.rows[0];
  COLUMNS.forEach(([name, , value], i) => {
    const cell = head.children[i];
    if (!value) return;
    cell.tabIndex = 0;
    const sort = () => {
      sorting = { key: name, down: sorting.key === name ? !sorting.down : !["run", "what", "state", "seed"].includes(name) };
      updateTable();
    };
    cell.addEventListener("click", sort);
    cell.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
}

function rowOf() {
  const tr = make("tr", "", ...COLUMNS.map(([, kind]) => make("td", kind)));
  const box = make("input");
  box.type = "checkbox";
  box.addEventListener("change", () => {
    if (box.checked) off.delete(tr.key); else off.add(tr.key);
    updateCurves();
    updateTable();
    updateSettings();
  });
  tr.children[0].append(box);
  tr.children[1].className = "left name";
  tr.children[1].append(make("a"), make("span", "limit"));
  tr.children[2].className = "left what wide-only";
  tr.children[10].className = "left why wide-only";
  tr.children[4].append(make("span", "pill"));
  svg("path", {}, svg("svg", { viewBox: "0 0 86 22", preserveAspectRatio: "none" }, tr.children[6]));
  return tr;
}

function updateTable() {
  const node = $("runs");
  if (!node.tHead) {
    node.append(make("thead", "", make("tr", "", ...COLUMNS.map(([name, kind]) => make("th", kind, name)))), make("tbody"));
    header(node);
  }
  COLUMNS.forEach(([name], i) => {
    const cell = node.tHead.rows[0].children[i];
    if (name && name === sorting.key) cell.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
  const keys = sorted(wanted()), several = new Set(order.map((key) => envOf(runs[key]))).size > 1;
  keep(node.tBodies[0], keys, rowOf, (tr, key) => {
    const run = runs[key], cells = tr.children, limit = limitOf(run), hot = !!run.bottleneck;
    tr.key = key;
    tr.className = "tone" + toneOf(groupOf(run)) % 8 + (off.has(key) ? " off" : "");
    cells[0].firstChild.checked = !off.has(key);
    cells[0].firstChild.setAttribute("aria-label", "draw " + run.name);
    const link = cells[1].children[0];
    put(link, run.name);
    link.href = "/run/" + key;
    put(cells[1].children[1], [groupOf(run) + (run.seed === "" ? "" : ", seed " + run.seed), limit && (failed(run) ? limit : "bottleneck " + limit)].filter(Boolean).join(" · "));
    cells[1].children[1].classList.toggle("hot", hot && run.state === "running");
    put(cells[2], groupOf(run) + (several && envOf(run) ? " on " + envOf(run) : ""));
    put(cells[3], run.seed);
    put(cells[4].firstChild, run.state);
    cells[4].firstChild.className = "pill " + run.state;
    cells[4].title = run.error || "";
    put(cells[5], figure(run.last.return) + (run.last.episodes < 100 ? ` (${count(run.last.episodes)})` : ""));
    cells[5].title = run.last.episodes < 100 ? "mean of so many episodes so far" : "";
    spark(cells[6].querySelector("path"), pairs((curves[key] || {}).steps, (curves[key] || {}).return || []));
    put(cells[7], count(run.last.steps));
    put(cells[8], count(speedOf(run)));
    put(cells[9], run.last.seconds === undefined ? "–" : duration(run.last.seconds));
    put(cells[10], limit);
    cells[10].classList.toggle("hot", hot && run.state === "running");
    cells[10].title = run.verdict;
    put(cells[11], run.state === "running" && run.machine.cpu !== undefined ? run.machine.cpu.toFixed(1) : "");
    put(cells[12], run.state === "running" ? bytes(run.machine.memory) : "");
  });
  const counts = {};
  for (const key of order) counts[runs[key].state] = (counts[runs[key].state] || 0) + 1;
  const said = Object.entries(counts).sort((a, b) => (RANK[a[0]] || 0) - (RANK[b[0]] || 0)).map(([state, n]) => n + " " + state);
  put($("about"), order.length ? [`${order.length} run${order.length === 1 ? "" : "s"}`, ...said].join(" · ") : "No runs yet.");
  put($("runs-aside"), (leftOut ? `${leftOut} older ones are not shown; ` : "") + (order.length ? "a name opens the run; headings sort" : ""));
}

function spark(path, points) {
  if (points.length < 2) { path.setAttribute("d", ""); return; }
  const ys = points.map((p) => p[1]), low = Math.min(...ys), high = Math.max(...ys), first = points[0][0], wide = points[points.length - 1][0] - first || 1;
  path.setAttribute("d", pathOf(points, (v) => 86 * (v - first) / wide, (v) => (high === low ? 11 : 20 - 18 * (v - low) / (high - low))));
}

// -- settings ---------------------------------------------------------------------------------

function updateSettings() {
  const groups = new Map();
  for (const key of wanted()) {
    const name = envOf(runs[key]) + "\n" + groupOf(runs[key]);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(runs[key]);
  }
  const rows = [...groups.values()].map((members) => {
    const returns = members.map((run) => run.last.return).filter((v) => v !== undefined);
    const mean = returns.reduce((a, b) => a + b, 0) / returns.length;
    return { members, returns, mean, env: envOf(members[0]) };
  }).sort((a, b) => (a.env < b.env ? -1 : a.env > b.env ? 1 : (b.returns.length ? b.mean : -Infinity) - (a.returns.length ? a.mean : -Infinity)));
  const differing = names.map((name, i) => [name, i]).filter(([, i]) => new Set(rows.map((row) => (row.members[0].settings || [])[i])).size > 1);
  $("settings-card").hidden = rows.length < 2 || !differing.length;
  if ($("settings-card").hidden) return;
  const node = $("settings"), columns = [["", "left"], ["runs", ""], ["return", ""], ["of seeds", "soft"], ...differing.map(([name]) => [name, ""])];
  if (node.columns !== columns.map(([name]) => name).join("\n")) {
    node.replaceChildren();
    node.columns = columns.map(([name]) => name).join("\n");
  }
  const best = {};
  for (const row of rows) if (row.returns.length && !(best[row.env] >= row.mean)) best[row.env] = row.mean;
  const several = new Set(rows.map((row) => row.env)).size > 1;
  table(node, columns, rows.map((row) => [
    [groupOf(row.members[0]) + (several && row.env ? " on " + row.env : ""), "dot"], String(row.members.length),
    [row.returns.length ? figure(row.mean) : "–", row.returns.length && row.mean === best[row.env] ? "best" : ""],
    row.returns.length < 2 ? "" : figure(Math.min(...row.returns)) + " to " + figure(Math.max(...row.returns)),
    ...differing.map(([, i]) => (row.members[0].settings || [])[i] || "–"),
  ]), (i) => "tone" + toneOf(groupOf(rows[i].members[0])) % 8);
  put($("settings-aside"), "with the newest return of each");
}

// -- machine ----------------------------------------------------------------------------------

function updateMachine() {
  const keys = wanted().filter((key) => machines[key] && (machines[key].time || []).length);
  const firstOf = (key) => machines[key].time[0], lastOf = (key) => machines[key].time[machines[key].time.length - 1];
  const newest = Math.max(...keys.map(lastOf));
  // the run that was measured last, and those that ran at the same time as it, or as one of them
  let oldest = newest, recent = [];
  for (let before = -1; before < recent.length;) {
    before = recent.length;
    recent = keys.filter((key) => lastOf(key) >= oldest - 10 && lastOf(key) > newest - 3600);
    oldest = Math.max(newest - 3600, Math.min(...recent.map(firstOf)));
  }
  $("machine-card").hidden = !recent.length;
  if (!recent.length) return;
  const short = newest - oldest < 180, unit = short ? 1 : 60;
  const line = (key, name, by) => pairs(machines[key].time.map((t) => (t - newest) / unit), (machines[key][name] || []).map((v) => (v === null || v === undefined ? v : v / by))).filter(([t]) => t >= -3600 / unit);
  const whole = (name, by) => {
    // every run has measured the machine; what the longest says is enough
    const longest = recent.reduce((a, b) => (machines[b].time.length > machines[a].time.length ? b : a));
    const points = line(longest, name, by);
    return points.length ? [{ name: "machine", tone: 7, points, className: "mean grey" }] : [];
  };
  const each = (name, by) => recent.map((key) => ({ name: runs[key].name, tone: toneOf(groupOf(runs[key])) % 8, points: line(key, name, by) })).filter((one) => one.points.length);
  const cores = runs[recent[0]].machine.cores, total = runs[recent[0]].machine.memory_total;
  const charts = [
    ["Processors", `cores busy${cores ? ", of " + cores : ""}; dotted: the whole machine`, [...each("cpu", 1), ...whole("machine_cpu", 1)], figure],
    ["Memory", `GiB${total ? ", of " + figure(total / 2 ** 30) : ""}; dotted: the whole machine`, [...each("memory", 2 ** 30), ...whole("machine_memory", 2 ** 30)], figure],
    ["GPU", "per cent, all of them", whole("gpu", 1), figure],
    ["GPU memory", "GiB", whole("gpu_memory", 2 ** 30), figure],
  ].filter(([, , series]) => series.some((one) => one.points.length > 1));
  $("machine-card").hidden = !charts.length;
  keep($("machine"), charts, () => make("div", "", make("h3", "", make("span"), make("span", "aside")), make("div", "chart")), (node, [title, aside]) => {
    put(node.children[0].children[0], title);
    put(node.children[0].children[1], aside);
  });
  // all are there now, so each has the width that it keeps
  charts.forEach(([, , series, form], i) => {
    const node = $("machine").children[i];
    plot(node.children[1], "m" + i, series, { xName: short ? "seconds" : "minutes", yFormat: form, xFormat: figure, zero: true });
  });
}

// -- films and pictures -----------------------------------------------------------------------

function updateMedia() {
  const shown = wanted().flatMap((key) => (runs[key].media || []).filter((name) => name !== "curve.png").slice(0, 6).map((name) => [key, name])).slice(0, 60);
  $("media-card").hidden = !shown.length;
  const version = shown.join("\n");
  if ($("media").version === version) return;
  $("media").version = version;
  $("media").replaceChildren(films(shown.map(([key, name]) => ["/run/" + key + "/file?name=" + encodeURIComponent(name), name, runs[key].name, "/run/" + key])));
}

// -- news -------------------------------------------------------------------------------------

function updateState() {
  document.body.dataset.state = lostAt ? "offline" : "running";
  put($("fresh"), readAll < 1 ? `reading, ${percent(readAll)}` : "");
  $("word").hidden = !lostAt;
  put($("word"), "The view has been closed, or its process has ended. What is shown is what was known last.");
}

function update(news) {
  if (news.kind !== "runs") { location.reload(); return; }
  if (news.session !== session) for (const known of [runs, curves, machines]) for (const key of Object.keys(known)) delete known[key];
  ({ session, since, order, settings: names, left_out: leftOut, read: readAll } = news);
  Object.assign(runs, news.runs);
  Object.assign(curves, news.curves);
  Object.assign(machines, news.machines);
  put($("name"), news.title);
  document.title = news.title + " · runs";
  const changed = (part) => Object.keys(part).length > 0;
  const other = order.join() !== update.order;
  update.order = order.join();
  for (const key of [...order].reverse()) toneOf(groupOf(runs[key]));
  if (changed(news.runs) || changed(news.curves) || other) { updateCurves(); updateTable(); updateSettings(); updateMedia(); }
  if (changed(news.machines) || other) updateMachine();
  updateState();
}

function redraw() {
  updateCurves();
  updateTable();
  updateSettings();
  updateMachine();
  updateMedia();
}

async function poll() {
  let news = null;
  try {
    const answer = await fetch("/data?" + new URLSearchParams({ session, since }), { cache: "no-store", signal: AbortSignal.timeout(15000) });
    if (answer.ok) news = await answer.json();
  } catch {
    // said below
  }
  lostAt = news ? 0 : lostAt || Date.now();
  try {
    if (news) update(news);
    else updateState();
  } catch (error) {
    console.error(error); // one odd run should not end the view
  }
  if (!document.hidden) setTimeout(poll, news && news.read < 1 ? 100 : 1000);
  else document.addEventListener("visibilitychange", poll, { once: true });
}

for (const id of ["figure", "over", "as"]) $(id).addEventListener("change", () => { for (const name of Object.keys(zooms)) delete zooms[name]; redraw(); });
$("smooth").addEventListener("input", updateCurves);
$("filter").addEventListener("input", redraw);
$("controls").addEventListener("submit", (event) => event.preventDefault());
addEventListener("resize", redraw);
setTimeout(poll, 1000);
update(JSON.parse($("data").textContent));
