"use strict";
(() => {
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const data = JSON.parse(find("#profile").textContent);
  const stages = new Map(data.stages.map((stage) => [stage.id, stage]));
  const tasks = new Map(data.stages.flatMap((stage) => stage.tasks.map((task) => [task.id, { stage, task }])));

  // An element with text or children; texts are never read as markup.
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };

  // Numbers as the rest of the page says them.
  const digits = (value) => value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
  const scaled = (value, step, units) => {
    if (value < step) return `${value} ${units[0]}`.trim();
    let unit = 0;
    while (value >= step - 0.5 && unit + 1 < units.length) { value /= step; unit += 1; }
    return `${digits(value)} ${units[unit]}`;
  };
  const time = (ns) => {
    if (ns === 0) return "0 s";
    if (ns < 1000) return `${ns} ns`;
    for (const [unit, size] of [["µs", 1e3], ["ms", 1e6]]) if (ns / size < 999.5) return `${digits(ns / size)} ${unit}`;
    if (ns / 1e9 < 599.5) return `${digits(ns / 1e9)} s`;
    return ns / 6e10 < 99.95 ? `${digits(ns / 6e10)} min` : `${digits(ns / 3.6e12)} h`;
  };
  const says = {
    ns: time,
    bytes: (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]),
    "": (value) => scaled(value, 1000, ["", "k", "M", "G", "T", "P", "E"]),
  };
  const exact = (value, unit) => `${value.toLocaleString("en")} ${unit}`.trim();
  const share = (part) => (Math.round(part * 100) >= 1 ? `${Math.round(part * 100)} %` : part > 0 ? "< 1 %" : "0 %");
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

  // What is selected is named as in the address: stage-2, op-2-3, task-2-1.
  const parse = (name) => {
    const [kind, id] = /^(stage|op|task)-([\d-]+)$/.exec(name)?.slice(1) ?? [];
    if (kind === "stage" && stages.has(+id)) return { kind, id, stage: stages.get(+id) };
    if (kind === "task" && tasks.has(id)) return { kind, id, ...tasks.get(id) };
    if (kind === "op") {
      const [stage, index] = id.split("-").map(Number);
      const node = stages.get(stage)?.nodes[index];
      if (node) return { kind, id, stage: stages.get(stage), node, index };
    }
    return null;
  };

  const panel = find("#details");
  const untouched = [...panel.childNodes];
  let selected = null;

  const select = (name, keep = true) => {
    selected = parse(name);
    for (const element of all(".on, .in")) element.classList.remove("on", "in");
    for (const element of all("[aria-pressed=true][role=button]")) element.setAttribute("aria-pressed", "false");
    document.body.classList.toggle("chosen", selected !== null);
    panel.replaceChildren(...(selected ? details(selected) : untouched));
    panel.scrollTop = 0;
    if (selected) {
      const { kind, id, stage } = selected;
      for (const element of all(`svg [data-stage="${stage.id}"], tr[data-stage="${stage.id}"]`)) element.classList.add("in");
      for (const element of all(`svg [data-${kind}="${id}"]:not([data-task]), svg [data-task="${id}"], tr[data-${kind}="${id}"]`)) {
        if (element.dataset.task && kind !== "task") continue;
        element.classList.add("on");
        if (element.getAttribute("role") === "button") element.setAttribute("aria-pressed", "true");
      }
    }
    if (keep) history.replaceState(null, "", selected ? `#${name}` : location.pathname + location.search);
  };

  // The panel.
  const close = () => make("button", { type: "button", class: "close", onclick: () => select("") }, "Clear");
  const button = (name, text) => make("a", { href: `#${name}` }, text);

  const bars = (rows, unit, color) => {
    const most = Math.max(1, ...rows.map((row) => sum(row.parts)));
    return make("div", { class: "bars" }, ...rows.flatMap((row) => {
      const total = sum(row.parts);
      const track = make("span", { class: `track ${color}` });
      for (const [index, part] of row.parts.entries()) {
        if (!part) continue;
        const piece = make("i", { title: row.parts.length > 1 ? `partition ${index}: ${exact(part, unit)}` : exact(part, unit) });
        piece.style.width = `${(part / most) * 100}%`;
        track.append(piece);
      }
      return [row.label, track, make("span", { class: "v", title: exact(total, unit) }, says[unit](total))];
    }));
  };

  const series = (stage, metric) => {
    const rows = metric.by.map(([index, parts]) => {
      const task = stage.tasks[index];
      return { label: task ? button(`task-${task.id}`, task.name) : "here", parts, task };
    });
    const parts = [make("h4", {}, `${metric.name}, by task`), bars(rows, metric.unit, "")];
    const partitions = metric.by.flatMap(([index, numbers]) => numbers.map((number, partition) => ({
      label: `${stage.tasks[index]?.name ?? "here"} / ${partition}`, parts: [number],
    })));
    if (partitions.length > rows.length) {
      parts.push(make("details", {}, make("summary", {}, `By partition (${partitions.length})`), bars(partitions, metric.unit, "")));
    }
    return parts;
  };

  const operator = ({ stage, node, id }) => {
    const told = node.metrics.filter((metric) => metric.text ?? metric.total);
    const zero = node.metrics.filter((metric) => !(metric.text ?? metric.total));
    const chart = make("div");
    const rows = told.map((metric) => {
      const value = make("b", metric.text ? {} : { title: exact(metric.total, metric.unit) }, metric.text ?? says[metric.unit](metric.total));
      if (!metric.by) return make("div", { class: "metric" }, metric.name, value);
      return make("button", { type: "button", class: "metric", "aria-pressed": "false", onclick: (event) => {
        for (const other of rows) if (other.ariaPressed) other.setAttribute("aria-pressed", String(other === event.currentTarget));
        chart.replaceChildren(...series(stage, metric));
      } }, metric.name, value);
    });
    const first = ["elapsed_compute", "time_elapsed_processing", "exchange_wait", "output_rows"]
      .map((name) => rows[told.findIndex((metric) => metric.name === name && metric.by)])
      .find((row) => row) ?? rows.find((row) => row.tagName === "BUTTON");
    first?.click();
    const parts = [
      make("p", { class: "sub" }, `${share(node.share)} of the compute time, ${share(node.stage_share)} of that of `,
        button(`stage-${stage.id}`, stage.name.toLowerCase())),
    ];
    if (node.reads !== undefined) parts.push(make("p", {}, "Reads ", button(`stage-${node.reads}`, stages.get(node.reads).name.toLowerCase()), "."));
    parts.push(make("pre", { tabindex: 0, "aria-label": "As EXPLAIN shows it" }, find(`#op-${id} td.text`).textContent), ...rows);
    if (!told.length) parts.push(make("p", { class: "note" }, "It measured nothing."));
    if (zero.length) parts.push(make("p", { class: "note" }, `Zero: ${zero.map((metric) => metric.name).join(", ")}.`));
    parts.push(chart);
    if (data.detail !== "partitions") parts.push(make("p", { class: "note" }, {
      tasks: "This query is large: numbers are by task, not by partition.",
      essential: "This query is large: only rows and compute time are by task.",
      totals: "This query is large: numbers are those of all tasks together.",
    }[data.detail]));
    return parts;
  };

  const ofStage = ({ stage }) => {
    const color = `c${stage.id === 0 ? 0 : ((stage.id - 1) % 8) + 1}`;
    const label = (task) => button(`task-${task.id}`, task.name);
    const by = (title, key, unit) => {
      const rows = stage.tasks.map((task) => ({ label: label(task), parts: [task[key]] }));
      return sum(rows.map((row) => row.parts[0])) ? [make("h4", {}, title), bars(rows, unit, color)] : [];
    };
    const busiest = stage.nodes.map((node, index) => ({ label: button(`op-${stage.id}-${index}`, node.name), parts: [node.stage_share], node }))
      .filter((row) => row.node.stage_share >= 0.01).sort((one, other) => other.parts[0] - one.parts[0]).slice(0, 8);
    const parts = [];
    if (stage.tasks.length) parts.push(make("p", { class: "sub" }, `${stage.tasks.length} ${stage.tasks.length === 1 ? "task" : "tasks"}`));
    if (busiest.length) {
      parts.push(make("h4", {}, "Share of its compute time"), make("div", { class: "bars" }, ...busiest.flatMap((row) => {
        const piece = make("i");
        piece.style.width = `${row.parts[0] * 100}%`;
        return [row.label, make("span", { class: "track" }, piece), make("span", { class: "v" }, share(row.parts[0]))];
      })));
    }
    return [...parts, ...by("Ran, by task", "ns", "ns"), ...by("Rows out, by task", "rows", ""), ...by("Bytes out, by task", "bytes", "bytes")];
  };

  const ofTask = ({ stage, task }) => {
    const place = stage.tasks.indexOf(task);
    const times = stage.nodes.map((node, index) => {
      const metric = ["elapsed_compute", "time_elapsed_processing"]
        .map((name) => node.metrics.find((metric) => metric.name === name && metric.by)).find((metric) => metric);
      const parts = metric?.by?.find(([index]) => index === place)?.[1] ?? [];
      return { label: button(`op-${stage.id}-${index}`, node.name), parts };
    }).filter((row) => sum(row.parts));
    const facts = [["Ran", time(task.ns)], ["Rows out", says[""](task.rows)], ["Bytes out", says.bytes(task.bytes)]];
    const parts = [
      make("p", { class: "sub" }, `${task.status}, on ${task.worker}, of `, button(`stage-${stage.id}`, stage.name.toLowerCase())),
      make("dl", {}, ...facts.map(([name, text]) => make("div", { class: "metric" }, make("dt", {}, name), make("dd", {}, text)))),
    ];
    if (task.error) parts.splice(1, 0, make("pre", { class: "error", tabindex: 0, "aria-label": "Error" }, task.error));
    if (times.length) parts.push(make("h4", {}, "Compute time, by operator and partition"), bars(times, "ns", ""));
    return parts;
  };

  const details = (what) => {
    const title = { stage: () => what.stage.name, op: () => what.node.name, task: () => `Task ${what.task.name}` }[what.kind]();
    const parts = { stage: ofStage, op: operator, task: ofTask }[what.kind](what);
    return [close(), make("h3", {}, title), ...parts];
  };

  // Selection by pointer: links within the page, and rows of tables.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const row = event.target.closest("tr[id]");
    const name = link ? link.getAttribute("href").slice(1) : row?.id;
    if (!name || !parse(name)) return;
    event.preventDefault();
    select(name);
    if (link?.matches("svg a")) stop(link, true);
    else reveal(name, link !== null);
  });
  window.addEventListener("hashchange", () => select(location.hash.slice(1), false));

  // Each drawing is one stop of the tab key; arrows go on from there.
  const plan = find("#plan-svg");
  const timeline = find("#timeline-svg");
  const stop = (element, focus) => {
    for (const other of all("a", element.ownerSVGElement)) other.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
    if (focus) element.focus({ preventScroll: true });
    if (focus) element.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  // Brings what was selected elsewhere into sight: in its frame, and in the window for who followed a link.
  const reveal = (name, window) => {
    const element = find(`svg a[href="#${name}"]`);
    if (!element) return;
    stop(element, false);
    const box = element.getBoundingClientRect();
    const around = element.closest(".scroll").getBoundingClientRect();
    if (box.left < around.left || box.right > around.right) {
      element.closest(".scroll").scrollLeft += box.x + Math.min(box.width, around.width) / 2 - around.x - around.width / 2;
    }
    if (window) element.scrollIntoView({ block: "nearest" });
  };
  const top = (stage) => `op-${stage}-0`;
  const walk = {
    ArrowUp: ({ stage, node }) => {
      if (node.parent !== undefined) return `op-${stage.id}-${node.parent}`;
      for (const reader of data.stages) {
        const index = reader.nodes.findIndex((other) => other.reads === stage.id);
        if (index >= 0) return `op-${reader.id}-${index}`;
      }
    },
    ArrowDown: ({ stage, node, index }) => {
      if (node.reads !== undefined) return top(node.reads);
      const child = stage.nodes.findIndex((other) => other.parent === index);
      return child >= 0 ? `op-${stage.id}-${child}` : undefined;
    },
  };
  // To the side: the nearest operator that stands there, at about the same height.
  const beside = (id, direction) => {
    const middle = (element) => { const box = element.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; };
    const [x, y] = middle(find(`[data-op="${id}"]`, plan));
    let best = null;
    for (const other of all("a.op", plan)) {
      const [otherX, otherY] = middle(other);
      const away = (otherX - x) * direction;
      const far = away + 3 * Math.abs(otherY - y);
      if (away > 1 && (!best || far < best.far)) best = { far, name: `op-${other.dataset.op}` };
    }
    return best?.name;
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && selected) return select("");
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("#details, table, pre, button")) return;
    const link = event.target.closest("svg a");
    if (link && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      return link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    }
    const direction = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!direction || !link) return;
    event.preventDefault();
    let name;
    if (link.ownerSVGElement === timeline) {
      const links = all("a", timeline);
      name = links[links.indexOf(link) + direction]?.getAttribute("href").slice(1);
    } else {
      const at = parse(link.getAttribute("href").slice(1));
      if (at.kind === "stage") name = top(at.stage.id);
      else name = walk[event.key] ? walk[event.key](at) : beside(at.id, direction);
    }
    if (!name) return;
    select(name);
    stop(find(`svg a[href="#${name}"]`), true);
  });

  // Sorting.
  for (const table of all("table.sortable")) {
    const headers = all("thead th", table);
    for (const [column, header] of headers.entries()) {
      const sort = () => {
        const down = header.getAttribute("aria-sort") !== "descending";
        for (const other of headers) other.removeAttribute("aria-sort");
        header.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
        const order = (one, other) => String(key(one)).localeCompare(String(key(other)), "en", { numeric: true });
        const body = table.tBodies[0];
        body.append(...[...body.rows].sort((one, other) => (down ? -1 : 1) * order(one, other)));
      };
      header.replaceChildren(make("button", { type: "button", onclick: sort }, ...header.childNodes));
    }
  }

  // Zoom.
  const box = plan.viewBox.baseVal;
  let zoom = 1;
  const frame = find("#plan-scroll");
  const scale = (to) => {
    const middle = (frame.scrollLeft + frame.clientWidth / 2) / frame.scrollWidth;
    zoom = Math.min(2, Math.max(0.1, to));
    plan.setAttribute("width", box.width * zoom);
    plan.setAttribute("height", box.height * zoom);
    frame.scrollLeft = middle * frame.scrollWidth - frame.clientWidth / 2;
  };
  const fitting = () => (frame.clientWidth - 32) / box.width;
  find("#zoom").hidden = false;
  find("#zoom").addEventListener("click", (event) => {
    const way = event.target.dataset.zoom;
    if (way) scale({ out: zoom / 1.25, in: zoom * 1.25, fit: fitting() }[way]);
  });
  // At first as much as can still be read.
  scale(Math.min(1, Math.max(0.85, fitting())));
  // The result in the middle, and what it comes from around it.
  const root = find("a.op", plan).getBoundingClientRect();
  frame.scrollLeft = root.x + root.width / 2 - frame.getBoundingClientRect().x - frame.clientWidth / 2;

  for (const element of all("svg a")) element.setAttribute("aria-pressed", "false");
  for (const svg of [plan, timeline]) if (svg && find("a", svg)) stop(find("a.op", svg) ?? find("a", svg), false);
  for (const element of all(".scripted")) element.hidden = false;
  const asked = location.hash.slice(1);
  if (parse(asked)) {
    select(asked, false);
    reveal(asked, false);
    // The browser goes to the table's row, once all is loaded.
    addEventListener("load", () => find(`svg a[href="#${asked}"]`)?.scrollIntoView({ block: "center" }));
  }
})();
