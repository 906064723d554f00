// Shows what /data says of a run, about once a second. Texts are set as text, except the drawing, which the
// server has escaped and which is parsed as an image, not as a page.

const seen = { run: {}, graph: {}, curve: { rows: 0, last: {}, columns: {} }, status: {}, view: {}, machine: { columns: {}, last: {} }, media: { names: [] } };
let versions = {}, recent = [], lostAt = 0;

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

// where the drawing is wider than the screen, the bottleneck is what is seen of it, until somebody scrolls
function lookAt(box) {
  const host = $("graph"), room = host.clientWidth;
  if (!box || seen.graph.touched || host.scrollWidth <= room) return;
  const place = box.g.getBoundingClientRect(), left = host.getBoundingClientRect().left;
  host.scrollLeft += place.left + place.width / 2 - left - room / 2;
}

for (const event of ["pointerdown", "wheel", "touchstart", "keydown"]) {
  $("graph").addEventListener(event, () => { seen.graph.touched = true; }, { passive: true });
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
  lookAt(hot);
  const where = Object.fromEntries(graph.boxes.map((box) => [box.id, box]));
  for (const edge of graph.edges) {
    const speed = edge.kind === "message" ? messageRate(edge, graph.edges, groups, where) : rates[edge.from] || 0;
    edge.g.classList.toggle("flowing", speed > 0 && !!edge.motion);
    // on a scale of powers: a thousand items a second should not be a blur
    if (edge.motion) edge.motion.updatePlaybackRate(Math.min(6, 0.35 + 0.45 * Math.log2(1 + speed)));
  }
  put($("graph-aside"), seen.view.state === "running" ? "items per second, over the last 5 s; dots move faster where more pass" : "items per second, over the whole run");
}

// -- curves -----------------------------------------------------------------------------------

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

function updateMachine() {
  const { columns, last } = seen.machine, times = columns.time || [];
  $("machine-card").hidden = !times.length;
  if (!times.length) return;
  const first = times[0], short = times[times.length - 1] - first < 180;
  const xs = times.map((time) => (time - first) / (short ? 1 : 60)), xName = short ? "seconds" : "minutes";
  const line = (name, key, by) => ({ name, points: pairs(xs, (columns[key] || []).map((v) => (v === null || v === undefined ? v : v / by))) });
  const GIB = 2 ** 30;
  const charts = [
    ["cpu", [line("this run", "cpu", 1), line("machine", "machine_cpu", 1)], (v) => figure(v) + (last.cores ? " of " + last.cores + " cores" : "")],
    ["memory", [line("this run", "memory", GIB), line("machine", "machine_memory", GIB)], (v) => figure(v) + " GiB"],
    ["gpu", [line("GPU", "gpu", 1)], (v) => figure(v) + "%"],
  ];
  for (const [id, series, yFormat] of charts) {
    const there = series.filter((one) => one.points.length);
    $(id + "-part").hidden = !there.length;
    if (there.length) chart(id, there, { xName, yFormat, zero: true });
  }
}

function updateMedia() {
  const names = seen.media.names.filter((name) => name !== "curve.png");
  $("media-card").hidden = !names.length;
  $("media").replaceChildren(films(names.map((name) => [HERE + "/file?name=" + encodeURIComponent(name), name])));
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
  const shares = Object.entries(status.busy || {}).map(([who, share]) => `${who === "gpu" ? "GPU" : who} ${percent(share)}`).join(", ");
  const busy = shares && !words[state] && !still ? ` Busy: ${shares}.` : "";
  put($("word"), (words[state] || still || status.verdict || "") + busy + failed + slow);
  $("word").classList.toggle("hot", !!status.bottleneck);
  document.title = (state === "running" ? "" : state + " · ") + $("name").textContent + (last.return === undefined ? "" : " · " + figure(last.return));
}

function update(news) {
  if (news.kind !== "run") { location.reload(); return; } // runs were put into what was empty
  Object.assign(versions, news.versions);
  for (const part of ["run", "graph", "curve", "status", "machine", "media"]) if (part in news) seen[part] = news[part];
  seen.view = { ...news.view, at: Date.now() };
  remember(seen.status);
  if ("run" in news) updateFacts();
  if ("graph" in news) drawGraph();
  updateGraph();
  if ("curve" in news || "run" in news) updateCurves();
  if ("machine" in news) updateMachine();
  if ("media" in news) updateMedia();
  updateTiles();
  updateResources();
  updateLedger();
  updateTables();
  updateState();
}

async function poll() {
  let news = null;
  try {
    const answer = await fetch(HERE + "/data?" + new URLSearchParams(versions), { cache: "no-store", signal: AbortSignal.timeout(8000) });
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

addEventListener("resize", () => { fitGraph(); updateCurves(); updateMachine(); });
$("all").hidden = HERE === "";
setTimeout(poll, 1000);
update(JSON.parse($("data").textContent));
