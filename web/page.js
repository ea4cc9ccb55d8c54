// SPDX-License-Identifier: MIT
// The page: which charts there are, findings that lead to their evidence, keys, downloads, dark and light.

const $ = (id) => document.getElementById(id);
const MANY = 200; // bars and moments behind lines that can still be told apart
const FEW_GPUS = 2;
const STACKED = 7; // processes that have an area of their own

// ---- which charts ----

// One line for each run; of a single run as many as the chart has.
function lines(data, entity, id, wanted) {
  const single = data.runs.length === 1;
  return data.runs.flatMap((run, r) => {
    const table = run.table(entity, id);
    if (!table) return [];
    const found = wanted.map((w, i) => {
      const columns = w.columns.map((name) => table.column(name)).filter(Boolean);
      if (columns.length < w.columns.length) return null;
      const line = lineOf(run, table, added(columns));
      if (!line.x.length || (w.drop && (highest(line) === 0 || line.x.length < table.rows / 100))) return null;
      return { label: w.label, color: w.color ?? i, dash: w.dash, thin: w.thin, line };
    }).filter(Boolean);
    return single ? found : found.slice(0, 1).map((l) => ({ ...l, label: run.label, color: r }));
  });
}

function chart(page, title, unit, found, more = {}) {
  return found.length ? new Chart(page, { title, unit, lines: found, ...more }) : null;
}

function ramRefs(run) {
  const refs = [];
  if (run.request_bytes) refs.push({ label: 'requested', value: run.request_bytes });
  if (run.limit_bytes && run.limit_bytes !== run.request_bytes && run.limit_bytes < (run.capacity_bytes || Infinity)) refs.push({ label: 'limit', value: run.limit_bytes });
  if (run.capacity_bytes) refs.push({ label: 'this machine has', value: run.capacity_bytes });
  return refs;
}

function ramFlag(run) {
  const { peak } = run;
  if (peak.bytes === null || peak.at_ns === null) return [];
  return [{ x: peak.at_ns / 1e9, y: peak.bytes, label: `peak ${bytes(peak.bytes)}, ${peak.method}` }];
}

function byProcess(page, run, name, title, unit, note) {
  const table = run.table('processes');
  if (!table) return null;
  const names = new Map(run.processes.map((p) => [p.id, `${p.name || '?'}[${p.pid}]`]));
  const found = table.columns.filter((c) => c.name === name).map((c) => ({ label: c.process ? names.get(c.process) || '?' : 'others', line: lineOf(run, table, c) }))
    .filter((l) => l.line.x.length && highest(l.line) > 0);
  if (found.length < 2) return null;
  const weight = (l) => l.line.mean.reduce((s, v) => s + (v || 0), 0);
  found.sort((a, b) => (a.label === 'others') - (b.label === 'others') || weight(b) - weight(a));
  const rest = found.splice(STACKED);
  if (rest.length === 1) found.push(...rest);
  else if (rest.length) found.push({ label: 'others', line: together(rest.map((l) => l.line)) });
  return chart(page, title, unit, found, { stack: true, note, kind: 'stack' });
}

function memory(page, data) {
  const run = data.runs[0];
  const single = data.runs.length === 1;
  const wanted = [
    { label: 'job', columns: ['ram'], color: 0 },
    { label: 'private', columns: ['ram_private'], color: 2, thin: true, drop: true },
    { label: 'shared', columns: ['ram_shared'], color: 3, thin: true, drop: true },
    { label: "job's swap", columns: ['swap'], color: 1, drop: true },
    { label: 'charged to its cgroup', columns: ['cgroup_mem'], color: 4, thin: true, dash: [2, 3], drop: true },
  ];
  return [
    chart(page, 'RAM of the job', 'bytes', lines(data, 'job', 0, wanted), { height: 220, note: 'Pages that several processes map count once.', refs: single ? ramRefs(run) : [], flags: single ? ramFlag(run) : [] }),
    single && byProcess(page, run, 'rss', 'RAM by process', 'bytes', 'Resident sizes, one upon another: pages that several map count in each, so the top can lie above the chart before.'),
    chart(page, 'RAM of the machine', 'bytes', lines(data, 'host', 0, [
      { label: 'in use by everybody', columns: ['mem_used'], color: 4, thin: true },
      { label: 'swap', columns: ['swap_used'], color: 1, drop: true }]), { height: 110, refs: single ? ramRefs(run).slice(-1) : [] }),
  ];
}

// ---- GPUs ----

const GPU_CHARTS = [
  { title: 'memory', unit: 'bytes', height: 150, lines: [
    { label: 'device', columns: ['mem'], color: 4, thin: true },
    { label: 'job', columns: ['job_mem'], color: 0 },
    { label: 'other jobs', columns: ['foreign_mem'], color: 1, drop: true },
    { label: 'unattributed', columns: ['unattributed_mem'], color: 3, drop: true }] },
  { title: 'at work', unit: 'share', height: 150, lines: [
    { label: 'SM active', columns: ['sm_active'], color: 0 },
    { label: 'SM occupancy', columns: ['sm_occupancy'], color: 2, thin: true },
    { label: 'tensor cores', columns: ['tensor_active'], color: 3, thin: true, drop: true },
    { label: 'memory bandwidth', columns: ['dram_active'], color: 1, thin: true },
    { label: '"utilisation": some kernel ran', columns: ['busy'], color: 4, dash: [2, 3], thin: true }] },
  { title: 'power', unit: 'watts', height: 110, lines: [
    { label: 'drawn', columns: ['power'], color: 1 },
    { label: 'limit', columns: ['power_limit'], color: 4, dash: [8, 4], thin: true }] },
  { title: 'temperature', unit: 'celsius', height: 110, loose: true, lines: [
    { label: 'GPU', columns: ['temp'], color: 1 },
    { label: 'its memory', columns: ['temp_mem'], color: 3 }] },
  { title: 'held back by', unit: 'share', height: 90, note: 'Share of the time in which the clocks were held back, and by what.', lines: [
    { label: 'power limit', columns: ['throttle_power'], color: 1, drop: true },
    { label: 'heat', columns: ['throttle_thermal'], color: 3, drop: true },
    { label: 'hardware', columns: ['throttle_hw'], color: 0, drop: true },
    { label: 'other reasons', columns: ['throttle_other'], color: 2, drop: true }] },
  { title: 'clock', unit: 'hertz', height: 90, lines: [{ label: 'SMs', columns: ['clock_sm'], color: 2 }] },
  { title: 'traffic', unit: 'rate', height: 110, lines: [
    { label: 'PCIe in', columns: ['pcie_rx'], color: 0, drop: true },
    { label: 'PCIe out', columns: ['pcie_tx'], color: 1, drop: true },
    { label: 'NVLink in', columns: ['nvlink_rx'], color: 2, drop: true },
    { label: 'NVLink out', columns: ['nvlink_tx'], color: 3, drop: true }] },
];
// Why clocks are held back, and where it is shown.
const HELD = { throttle_power: 'power limit', throttle_thermal: 'heat', throttle_hw: 'hardware', throttle_other: 'other reasons' };
const HELD_LEAST = 0.05; // of the time
const HELD_SHOWN = ['at work', 'power', 'temperature', 'clock'];
const GPU_ALL = [
  { title: 'GPU memory in use, each device', unit: 'bytes', column: ['mem'], height: 170 },
  { title: 'SM active, each device', unit: 'share', column: ['sm_active'], height: 150 },
  { title: '"Utilisation" (some kernel ran), each device', unit: 'share', column: ['busy'], height: 130 },
  { title: 'Power, each device', unit: 'watts', column: ['power'], height: 130 },
  { title: 'Temperature, each device', unit: 'celsius', column: ['temp'], height: 110, loose: true },
];

// torch/gpu0/allocated_bytes: what a framework's allocator says of a device, by CUDA's number or its uuid.
const ALLOCATOR = /^(\w+)\/(gpu\d+|GPU-[\w-]+|MIG-[\w-]+)\/(\w+)$/;

function allocatorLines(run, gpu) {
  const found = [];
  for (const table of run.tables.filter((t) => t.entity === 'series')) {
    const [, framework, device, figure] = ALLOCATOR.exec(table.columns[0].name) || [];
    const is = device === gpu.uuid || device === `gpu${gpu.cuda_index ?? gpu.index}`;
    if (!is || !['allocated_bytes', 'reserved_bytes'].includes(figure)) continue;
    found.push({ label: `${framework} ${figure.split('_')[0]}`, color: figure.startsWith('a') ? 2 : 3, dash: [6, 4], line: lineOf(run, table, table.columns[0]) });
  }
  return found;
}

// Stretches in which the clocks were held back: {from, to, label, sum: how much of it}.
function heldBack(run, gpu) {
  const table = run.table('gpu', gpu.id);
  const found = [];
  for (const [name, label] of table ? Object.entries(HELD) : []) {
    const column = table.column(name);
    const { x, mean } = column ? lineOf(run, table, column) : { x: [], mean: [] };
    let last = null;
    for (let i = 1; i < x.length; i++) {
      if (mean[i] === null || mean[i - 1] === null || mean[i] < HELD_LEAST) continue;
      if (!last || last.to < x[i - 1]) found.push(last = { from: x[i - 1], to: x[i], label, sum: 0 });
      last.to = x[i];
      last.sum += (x[i] - x[i - 1]) * mean[i];
    }
  }
  return found.slice(0, 2 * MANY);
}

function gpuCharts(page, data, gpu) {
  const total = gpu.total_bytes ? [{ label: 'it has', value: gpu.total_bytes }] : [];
  const single = data.runs.length === 1;
  const more = (c) => c.title === 'memory' && single ? allocatorLines(data.runs[0], gpu) : [];
  const held = single ? heldBack(data.runs[0], gpu) : [];
  return GPU_CHARTS.map((c) => chart(page, `${gpu.label} ${c.title}`, c.unit, lines(data, 'gpu', gpu.id, c.lines).concat(more(c)),
    { height: c.height, loose: c.loose, note: c.note, refs: c.title === 'memory' ? total : [], held: HELD_SHOWN.includes(c.title) ? held : [] }));
}

function gpuTogether(page, run) {
  return GPU_ALL.map((c) => {
    const found = run.gpus.map((gpu, i) => {
      const table = run.table('gpu', gpu.id);
      const column = table && c.column.map((name) => table.column(name)).find(Boolean);
      return column && { label: gpu.label, color: i, line: lineOf(run, table, column) };
    }).filter((l) => l && l.line.x.length);
    return chart(page, c.title, c.unit, found, { height: c.height, loose: c.loose });
  });
}

function gpus(page, data) {
  const run = data.runs[0];
  if (data.runs.length > 1) return run.gpus.slice(0, 1).flatMap((gpu) => gpuCharts(page, data, gpu));
  if (run.gpus.length <= FEW_GPUS) return run.gpus.flatMap((gpu) => gpuCharts(page, data, gpu));
  return [...gpuTogether(page, run), ...run.gpus.map((gpu) => new Folded(page, `${gpu.label}, ${gpu.name}`, () => gpuCharts(page, data, gpu)))];
}

// ---- the user's series ----

// train/loss and val/loss are two lines of one chart.
const family = (name) => name.split('/').pop().replace(/^(train|val|valid|validation|test|eval)[_.-]/, '');

const logged = (run) => run.tables.filter((t) => t.entity === 'series' && !ALLOCATOR.test(t.columns[0].name));

// [time, step] of each value that came with one.
function stepsOf(table) {
  const column = table.column('step');
  if (!column || column === table.columns[0]) return [];
  return table.t.map((t, row) => [t + table.span[row] / 2, column.mean[row]]).filter(([, step]) => step !== null);
}

function stepLink(run) {
  const longest = logged(run).filter((t) => t.column('step')).reduce((a, b) => a && a.rows >= b.rows ? a : b, null);
  return longest && linkOf(stepsOf(longest));
}

// The first and the last step of all; a report of millions has no time for a list of them.
function stepExtent(data) {
  let [low, high] = [Infinity, -Infinity];
  for (const column of data.runs.flatMap((run) => logged(run).map((t) => t.columns[1]).filter(Boolean))) {
    for (const step of column.mean) {
      if (step === null) continue;
      if (step < low) low = step;
      if (step > high) high = step;
    }
  }
  return [low, high];
}

// Where each epoch began and ended: by phases that say epoch=3, else by a series of that name.
function epochLink(run) {
  const told = run.phases.map((p) => [p, /^epoch=(\d+(?:\.\d+)?)$/m.exec(p.facts || '')]).filter(([, found]) => found);
  const outer = told.filter(([p]) => !told.some(([q]) => q.number === p.parent));
  if (outer.length) {
    return linkOf(outer.flatMap(([p, found]) => [[p.begin_ns / 1e9, Number(found[1])], [p.end_ns === null ? run.end : p.end_ns / 1e9, Number(found[1]) + 1]]));
  }
  const table = logged(run).find((t) => t.columns[0].name === 'epoch');
  return table ? linkOf(table.t.map((t, row) => [t, table.columns[0].mean[row]]).filter(([, epoch]) => Number.isFinite(epoch))) : null;
}

// A line with other places, in their order; what has none is left out.
function moved(line, placeOf) {
  const rows = line.x.map((_, row) => [placeOf(row), row]).filter(([place]) => place !== null && place !== undefined).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const pick = (list) => rows.map(([, row]) => list[row]);
  const places = new Map(line.x.map((x, row) => [x, placeOf(row)]));
  return { ...line, x: rows.map(([place]) => place), mean: pick(line.mean), low: pick(line.low), high: pick(line.high),
    special: line.special.map(([x, text]) => [places.get(x), text]).filter(([x]) => x !== null && x !== undefined) };
}

// What the charts of what was logged can lie over. placer(run, table): from a row of the table's line to its place.
function overs(page, data) {
  const epochs = data.runs.map(epochLink);
  const extent = stepExtent(data);
  const found = [{ name: 'time', view: page.view }];
  const single = data.runs.length === 1;
  if (extent[1] > extent[0]) {
    found.push({ name: 'step', make: () => new Places(page.view, ...extent, single ? stepLink(data.runs[0]) : null), placer: (run, table) => {
      const column = table.column('step');
      return (row) => column && column !== table.columns[0] ? column.mean[row] : null;
    } });
  }
  if (epochs.every(Boolean)) {
    const ends = [Math.min(...epochs.map((e) => e.begin)), Math.max(...epochs.map((e) => e.end))];
    found.push({ name: 'epoch', make: () => new Places(page.view, ...ends, single ? epochs[0] : null), placer: (run, table) => {
      const { place } = epochs[data.runs.indexOf(run)];
      return (row) => place(table.t[row] + table.span[row] / 2);
    } });
  }
  return found;
}

function series(page, data, isWanted, over) {
  const groups = new Map();
  data.runs.forEach((run, r) => {
    for (const table of run.tables.filter((t) => t.entity === 'series' && isWanted(t.columns[0].name))) {
      const column = table.columns[0];
      const plain = lineOf(run, table, column);
      const placeOf = over && over.placer && over.placer(run, table);
      const read = placeOf && column.mean.map((value, row) => value === null ? -1 : row).filter((row) => row >= 0);
      const line = placeOf ? moved(plain, (i) => placeOf(read[i])) : plain;
      const key = family(column.name);
      if (!groups.has(key)) groups.set(key, []);
      const group = groups.get(key);
      const label = data.runs.length > 1 ? `${column.name}, ${run.label}` : column.name;
      if (line.x.length) group.push({ label, color: data.runs.length > 1 ? r : group.length, line });
    }
  });
  return [...groups].map(([key, found]) => {
    const isBytes = key.endsWith('bytes');
    return chart(page, key, isBytes ? 'bytes' : 'plain', found, { loose: !isBytes, height: 150, view: over && over.view });
  });
}

// The charts of what was logged, with a switch: over time, steps or epochs.
class Logged {
  constructor(page, data) {
    this.inside = element('div', {});
    this.root = element('div', {});
    const choices = overs(page, data);
    const buttons = choices.map((over) => element('button', { type: 'button', 'aria-pressed': 'false', onclick: () => show(over) }, over.name));
    const show = (over) => {
      buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(choices[i] === over)));
      page.drop(this.panels || []);
      over.view = over.view || page.addView(over.make());
      this.panels = series(page, data, (name) => !ALLOCATOR.test(name), over).filter(Boolean);
      page.add(this.inside, this.panels);
    };
    this.start = () => show(choices[0]);
    if (choices.length > 1) this.root.append(element('p', { class: 'switch', role: 'group', 'aria-label': 'Drawn over' }, 'over ', ...buttons));
    this.root.append(this.inside);
  }
}

// ---- processors, storage, network ----

function processors(page, data) {
  const run = data.runs[0];
  const single = data.runs.length === 1;
  const refs = single && run.cpus ? [{ label: 'the job may use', value: Math.min(run.cpus, (run.limit_cpu_ppm || Infinity) / 1e6) }] : [];
  return [
    chart(page, 'Processors', 'cores', lines(data, 'job', 0, [
      { label: 'job', columns: ['cpu_user', 'cpu_system'], color: 0 },
      { label: "job, in the kernel", columns: ['cpu_system'], color: 1, thin: true }]).concat(single ? lines(data, 'host', 0, [
      { label: 'all of the machine', columns: ['cpu_user', 'cpu_system'], color: 4, dash: [2, 3], thin: true },
      { label: 'idle, waiting for disks', columns: ['cpu_iowait'], color: 3, drop: true, thin: true }]) : []), { height: 170, refs }),
    single && byProcess(page, run, 'cpu', 'Processors by process', 'cores'),
    chart(page, 'Tasks that waited', 'share', single ? lines(data, 'host', 0, [
      { label: 'for a processor', columns: ['psi_cpu'], color: 0, drop: true },
      { label: 'for memory', columns: ['psi_mem'], color: 1, drop: true },
      { label: 'for a disk', columns: ['psi_io'], color: 2, drop: true }]) : [], { height: 90, note: 'Share of the time in which at least one task of the machine waited (PSI).' }),
    chart(page, "Held back by the cgroup's quota", 'share', lines(data, 'job', 0, [{ label: 'time', columns: ['cgroup_throttled'], color: 1, drop: true }]), { height: 90 }),
    chart(page, 'Processes and threads', 'count', lines(data, 'job', 0, [
      { label: 'processes', columns: ['processes'], color: 0 },
      { label: 'threads', columns: ['threads'], color: 2, thin: true }]), { height: 100 }),
  ];
}

function traffic(page, data) {
  return [
    chart(page, 'Storage', 'rate', lines(data, 'job', 0, [
      { label: 'job reads', columns: ['read_bytes'], color: 0 },
      { label: 'job writes', columns: ['write_bytes'], color: 1 }]).concat(data.runs.length > 1 ? [] : lines(data, 'host', 0, [
      { label: "machine's disks read", columns: ['disk_read'], color: 2, dash: [2, 3], thin: true, drop: true },
      { label: "machine's disks write", columns: ['disk_write'], color: 3, dash: [2, 3], thin: true, drop: true }])), { height: 120 }),
    chart(page, 'Network of the machine', 'rate', lines(data, 'host', 0, [
      { label: 'received', columns: ['net_rx'], color: 0, drop: true },
      { label: 'sent', columns: ['net_tx'], color: 1, drop: true }]), { height: 110 }),
    chart(page, 'Power of the processor packages', 'watts', lines(data, 'host', 0, [{ label: 'drawn', columns: ['energy'], color: 1 }]), { height: 100 }),
  ];
}

// Charts that are made when somebody opens them.
class Folded {
  constructor(page, title, make) {
    const inside = element('div', {});
    this.root = element('details', { class: 'folded', ontoggle: () => {
      if (!make) return;
      page.add(inside, make());
      make = null;
    } }, element('summary', {}, title), inside);
  }
}

// ---- what happened ----

const WORDS = { mark: 'mark', alert: 'alert', cleared: 'cleared', oom: 'out of memory', gap: 'nothing was read', trigger: 'trigger', note: 'note', exec: 'runs another program' };
const TOLD = ['mark', 'alert', 'cleared', 'oom', 'trigger'];

function depths(phases) {
  const depth = new Map();
  for (const p of phases) depth.set(p.number, p.parent && depth.has(p.parent) ? depth.get(p.parent) + 1 : 0);
  return depth;
}

function phaseBars(run) {
  const depth = depths(run.phases);
  const hues = new Map();
  return run.phases.filter((p) => depth.get(p.number) < 4).map((p) => {
    const from = p.begin_ns / 1e9;
    const to = p.end_ns === null ? run.end : p.end_ns / 1e9;
    if (!hues.has(p.name)) hues.set(p.name, hues.size % 4);
    const facts = (p.facts || '').trim().split(/\s+/).filter(Boolean).map((f) => f.replace(p.name + '=', '')).join(' ');
    const label = facts ? `${p.name} ${facts}` : p.name;
    return { from, to, lane: depth.get(p.number), label, color: hues.get(p.name), open: p.end_ns === null,
      title: `${label}: ${duration(from)} ${DASH} ${duration(to)}, ${duration(to - from)}` };
  });
}

function eventBars(run, lane) {
  return run.events.filter((e) => TOLD.includes(e.kind)).map((e) => {
    const t = e.t_ns / 1e9;
    const alert = e.kind !== 'mark' && e.kind !== 'cleared';
    return { from: t, to: t, at: true, lane, alert, label: e.kind === 'cleared' ? '' : e.text || WORDS[e.kind], title: `${WORDS[e.kind]} at ${duration(t)}: ${e.text}` };
  });
}

function timeline(page, data) {
  if (data.runs.length > 1) return null;
  const run = data.runs[0];
  const phases = phaseBars(run);
  const lanes = phases.reduce((n, p) => Math.max(n, p.lane + 1), 0);
  const events = eventBars(run, lanes);
  if (!phases.length && !events.length) return null;
  const names = [...Array.from({ length: lanes }, (_, i) => i ? '' : 'phases'), ...(events.length ? ['events'] : [])];
  return new Lanes(page, { title: 'What happened', names, lanes: names.length, bars: [...phases, ...events] });
}

// ---- processes ----

function inOrder(processes) {
  const known = new Set(processes.map((p) => p.id));
  const children = new Map();
  for (const p of [...processes].sort((a, b) => a.born_ns - b.born_ns || a.id - b.id)) {
    const parent = known.has(p.parent) && p.parent !== p.id ? p.parent : 0;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(p);
  }
  const ordered = [];
  const walk = (id, depth) => {
    for (const p of children.get(id) || []) {
      ordered.push([p, depth]);
      walk(p.id, depth + 1);
    }
  };
  walk(0, 0);
  return ordered;
}

function gantt(page, run) {
  const SHOWN = 60;
  const kept = run.processes.slice(0, SHOWN);
  const bars = inOrder(kept).map(([p, depth], lane) => {
    const from = p.born_ns / 1e9;
    const to = p.ended_ns === null ? run.end : p.ended_ns / 1e9;
    const peak = p.peak_bytes === null ? '' : ` ${p.exact ? '' : '\u2265\u00a0'}${bytes(p.peak_bytes)}`;
    const name = `${p.name || '?'}[${p.pid}]`;
    return { from, to, lane, label: '\u2514 '.repeat(Math.min(depth, 1)) + name + peak, color: depth % 4, free: true, open: p.ended_ns === null,
      title: `${name}: lived ${duration(to - from)} from ${duration(from)}, peak${peak || ' unknown'}, processor time ${p.cpu_ns === null ? 'unknown' : duration(p.cpu_ns / 1e9)}` };
  });
  if (!bars.length) return null;
  const more = run.processes.length - kept.length + run.processes_more;
  return new Lanes(page, { title: 'Lifetimes and peaks', lanes: bars.length, bars, note: more > 0 ? `and ${more} smaller ones` : undefined });
}

// ---- downloads ----

function save(name, type, text) {
  const link = element('a', { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const csvField = (v) => v === null ? '' : /[",\r\n]/.test(String(v)) ? `"${String(v).replace(/"/g, '""')}"` : String(v);
const SUFFIX = { bytes: '_bytes', ppm: '_ratio', uw: '_watts', mcel: '_celsius', hz: '_hertz', count: '', ns: '_seconds', '': '' };

function csvOf(table) {
  const columns = table.columns.flatMap((c) => {
    const name = c.name + (c.process !== undefined ? '_' + c.process : '') + (c.rate && c.unit !== 'ppm' && c.unit !== 'uw' ? '_per_second' : '') + SUFFIX[c.unit];
    return c.band ? [[name + '_min', c.low], [name, c.mean], [name + '_max', c.high]] : [[name, c.mean]];
  });
  const rows = [['elapsed_s', 'span_s', ...columns.map(([name]) => name)]];
  for (let i = 0; i < table.rows; i++) rows.push([table.t[i], table.span[i], ...columns.map(([, values]) => values[i])]);
  return rows.map((row) => row.map(csvField).join(',')).join('\n') + '\n';
}

function jsonOf(run) {
  const tables = run.tables.map(({ entity, id, t, span, columns }) => ({ entity, id, elapsed_s: t, span_s: span,
    columns: columns.map(({ name, unit, rate, process, band, mean, low, high }) => ({ name, rate, process, unit: SUFFIX[unit].slice(1), mean, ...(band ? { min: low, max: high } : {}) })) }));
  return JSON.stringify({ summary: run.summary, tables, events: run.events, phases: run.phases, processes: run.processes });
}

function downloads(data) {
  const place = $('downloads').querySelector('.buttons');
  const many = data.runs.length > 1;
  data.runs.forEach((run, r) => {
    const stem = 'hiwater-' + (run.number || run.name || 'run' + (many ? r + 1 : '')).toString().replace(/[^\w.-]+/g, '_');
    const add = (label, name, type, make) => place.append(element('button', { type: 'button', onclick: () => save(name, type, make()) }, label));
    const of = many ? `, ${run.label}` : '';
    add('Summary, JSON' + of, stem + '-summary.json', 'application/json', () => JSON.stringify(run.summary, null, 2));
    add('Everything, JSON' + of, stem + '.json', 'application/json', () => jsonOf(run));
    for (const table of run.tables) {
      const name = table.entity === 'series' ? table.columns[0].name : table.entity === 'gpu' ? (run.gpus.find((g) => g.id === table.id) || {}).label : table.entity;
      add(`${name}, CSV${of}`, `${stem}-${String(name).replace(/[^\w.-]+/g, '_')}.csv`, 'text/csv', () => csvOf(table));
    }
  });
  $('downloads').hidden = false;
}

// ---- the page ----

// Calls work with a question, whether its time is over. Safari knows no idle time.
function whenIdle(work) {
  const turn = (deadline) => work(() => deadline.timeRemaining() < 4);
  if (typeof requestIdleCallback === 'function') return requestIdleCallback(turn, { timeout: 500 });
  return setTimeout(() => work(() => true), 50);
}

class Page {
  constructor(data) {
    const run = data.runs[0];
    const single = data.runs.length === 1;
    this.data = data;
    this.view = new View(Math.max(...data.runs.map((r) => r.end)));
    this.panels = [];
    this.count = 0;
    this.bands = single ? phaseBars(run).filter((b) => b.lane === 0).slice(0, MANY) : [];
    const near = single ? run.events : [];
    this.gaps = near.filter((e) => e.kind === 'gap').map((e) => ({ from: (e.t_ns - (e.value_ns || 0)) / 1e9, to: e.t_ns / 1e9 }));
    this.moments = near.filter((e) => TOLD.includes(e.kind) && e.kind !== 'cleared').slice(0, MANY).map((e) => ({ t: e.t_ns / 1e9, alert: e.kind !== 'mark' }));
    this.seen = new IntersectionObserver((found) => this.appeared(found), { rootMargin: '600px' });
    this.addView(this.view);
  }

  addView(view) {
    view.watch((what) => this.follow(what));
    return view;
  }

  drop(panels) {
    for (const panel of panels) {
      this.seen.unobserve(panel.root);
      panel.drop();
      panel.root.remove();
    }
    this.panels = this.panels.filter((panel) => !panels.includes(panel));
  }

  // Charts are made when they come near the window, the others one by one while nobody asks for anything.
  add(place, panels) {
    for (const panel of panels.flat().filter(Boolean)) {
      place.append(panel.root);
      if (!(panel instanceof Panel)) continue;
      this.panels.push(panel);
      panel.root.panel = panel;
      this.seen.observe(panel.root);
    }
    this.idle();
  }

  idle() {
    if (this.waiting || !this.panels.some((panel) => panel.isBehind())) return;
    this.waiting = whenIdle((isOver) => {
      this.waiting = null;
      for (const panel of this.panels) {
        if (!panel.isBehind()) continue;
        panel.catchUp();
        if (isOver()) break;
      }
      this.idle();
    });
  }

  appeared(found) {
    for (const { isIntersecting, target } of found) {
      target.panel.near = isIntersecting;
      if (isIntersecting) target.panel.catchUp();
    }
  }

  follow(what) {
    cancelAnimationFrame(this.frame);
    this.ranged = this.ranged || what === 'range';
    this.frame = requestAnimationFrame(() => {
      const range = this.ranged;
      this.ranged = false;
      for (const panel of this.panels) if (panel.near) panel.follow(range ? 'range' : 'cursor');
      this.tell();
      this.idle();
    });
  }

  tell() {
    const { view } = this;
    const whole = view.min === 0 && view.max === view.end;
    const range = whole ? `all of ${duration(view.end)}` : `${duration(view.min)} ${DASH} ${duration(view.max)} of ${duration(view.end)}`;
    $('when').textContent = view.cursor === null ? range : `at ${clock(view.cursor, (view.max - view.min) / 500)}  \u00b7  ${range}`;
    $('reset').disabled = whole;
  }

  redraw() {
    for (const panel of this.panels) if (panel.plot) panel.build();
  }

  everything() {
    for (const panel of this.panels) panel.catchUp();
  }
}

function sections(page, data) {
  const add = (title, panels) => {
    const found = panels.flat().filter(Boolean);
    if (!found.length) return;
    const root = element('section', { class: 'group' }, title ? element('h2', {}, title) : null);
    $('charts').append(root);
    page.add(root, found);
  };
  const first = timeline(page, data);
  if (first) page.add($('charts'), [first]);
  add('Memory', memory(page, data));
  add(data.runs[0].gpus.length === 1 ? 'GPU' : 'GPUs', gpus(page, data));
  if (data.runs.some((run) => logged(run).length)) {
    const section = new Logged(page, data);
    add('What the job logged', [section]);
    section.start();
  }
  if (data.runs.some((run) => run.tables.some((t) => t.entity === 'series' && ALLOCATOR.test(t.columns[0].name))))
    add('', [new Folded(page, "What frameworks say of their devices' memory", () => series(page, data, (name) => ALLOCATOR.test(name)))]);
  add('Processors', processors(page, data));
  add('Storage, network, power', traffic(page, data));
  for (const place of document.querySelectorAll('.gantt')) {
    if (data.runs.length === 1) page.add(place, [gantt(page, data.runs[0])]);
  }
}

// ---- dark and light ----

function isDark() {
  const chosen = document.documentElement.dataset.look;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function setLook(page, chosen) {
  if (chosen) document.documentElement.dataset.look = chosen;
  look = isDark() ? 'dark' : 'light';
  $('theme').textContent = look === 'dark' ? 'Light' : 'Dark';
  page.redraw();
}

const PAPER = 690; // how wide charts are drawn for paper: A4 or letter, between margins

function looks(page) {
  look = isDark() ? 'dark' : 'light';
  $('theme').textContent = look === 'dark' ? 'Light' : 'Dark';
  $('theme').onclick = () => setLook(page, look === 'dark' ? 'light' : 'dark');
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => setLook(page));
  let before;
  addEventListener('beforeprint', () => {
    before = document.documentElement.dataset.look || '';
    page.paper = PAPER;
    setLook(page, 'light');
    page.everything();
  });
  addEventListener('afterprint', () => {
    page.paper = null;
    if (before) setLook(page, before);
    else {
      delete document.documentElement.dataset.look;
      setLook(page);
    }
  });
}

// ---- findings, phases and processes lead to their time ----

function leads(page) {
  const stretch = (e) => [Number(e.dataset.from) / 1e9, Number(e.dataset.to) / 1e9];
  const cards = [...document.querySelectorAll('.card[data-from]')];
  const go = (card) => {
    cards.forEach((c) => c.classList.toggle('chosen', c === card));
    page.view.showAround(...stretch(card));
  };
  for (const card of cards) {
    card.classList.add('leads');
    const [from, to] = stretch(card);
    card.append(element('button', { type: 'button', class: 'show', onclick: () => { go(card); $('charts').scrollIntoView(); } }, from <= 0 && to >= page.view.end * 0.99 ? 'Show all of the run' : `Show ${duration(from)} ${DASH} ${duration(to)}`));
  }
  for (const row of document.querySelectorAll('tr[data-from]')) {
    row.classList.add('leads');
    row.addEventListener('click', () => page.view.showAround(...stretch(row)));
  }
  let at = -1;
  return (by) => {
    if (!cards.length) return;
    at = (at + by + cards.length) % cards.length;
    cards[at].focus({ preventScroll: true });
    cards[at].scrollIntoView({ block: 'nearest' });
    go(cards[at]);
    $('spoken').textContent = cards[at].textContent;
  };
}

// ---- keys ----

function keyboard(page, nextFinding) {
  const { view } = page;
  const speak = () => {
    const shown = page.panels.filter((p) => p.near && p.spoken).slice(0, 3);
    $('spoken').textContent = view.cursor === null ? '' : `at ${duration(view.cursor)}. ` + shown.map((p) => p.spoken()).join('. ');
  };
  const move = (share) => () => {
    view.step(share);
    requestAnimationFrame(() => requestAnimationFrame(speak));
  };
  const keys = [
    ['ArrowLeft', '\u2190 \u2192', 'move the crosshair', move(-0.01)],
    ['ArrowRight', null, null, move(0.01)],
    ['Shift+ArrowLeft', 'Shift \u2190 \u2192', 'earlier, later', () => view.pan(-0.25)],
    ['Shift+ArrowRight', null, null, () => view.pan(0.25)],
    ['+', '+ \u2212', 'zoom in, out, around the crosshair', () => view.zoom(0.5)],
    ['=', null, null, () => view.zoom(0.5)],
    ['-', null, null, () => view.zoom(2)],
    ['0', '0', 'all of the run', () => view.all()],
    ['n', 'n  N', 'next, previous finding', () => nextFinding(1)],
    ['N', null, null, () => nextFinding(-1)],
    ['Escape', 'Esc', 'no crosshair', () => view.point(null)],
    ['t', 't', 'dark or light', () => $('theme').click()],
    ['?', '?', 'this list', () => $('keys').showModal()],
  ];
  for (const [, shown, words] of keys.filter((k) => k[1])) $('keys').querySelector('.keys').append(element('dt', {}, element('kbd', {}, shown)), element('dd', {}, words));
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, textarea, select, dialog')) return;
    const name = e.shiftKey && e.key.startsWith('Arrow') ? 'Shift+' + e.key : e.key;
    const found = keys.find(([key]) => key === name);
    if (!found) return;
    e.preventDefault();
    found[3]();
  });
  $('zoom-in').onclick = () => view.zoom(0.5);
  $('zoom-out').onclick = () => view.zoom(2);
  $('reset').onclick = () => view.all();
  $('help').onclick = () => $('keys').showModal();
}

async function begin() {
  const data = await readData($('data').textContent);
  data.runs.forEach((run, r) => { run.label = `${r + 1}. ${run.name || (run.number ? `run ${run.number}` : run.command || 'a run')}`; });
  const page = new Page(data);
  looks(page);
  $('bar').hidden = false;
  sections(page, data);
  $('pictures').hidden = true;
  keyboard(page, leads(page));
  downloads(data);
  page.tell();
  let width = innerWidth;
  new ResizeObserver(() => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const panel of page.panels) panel.resize();
  }).observe(document.documentElement);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

begin().catch((error) => {
  $('problem').textContent = 'The charts cannot be shown: ' + error.message;
  $('problem').hidden = false;
});
