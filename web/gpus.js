// SPDX-License-Identifier: MIT
// Charts of GPUs, and the stretches in which their clocks were throttled.

const FEW_GPUS = 2;

const GPU_CHARTS = [
  { title: 'memory', unit: 'bytes', height: 150, lines: [
    { label: 'device', columns: ['mem'], color: 4, thin: true },
    { label: 'job', columns: ['job_mem'], color: 0, lead: true }, // of several runs this line alone is drawn
    { label: 'other processes', columns: ['other_mem'], color: 1, drop: true },
    { label: 'unattributed', columns: ['unattributed_mem'], color: 3, drop: true }] },
  { title: 'activity', unit: 'share', height: 150, lines: [
    { label: 'SM active', columns: ['sm_active'], color: 0 },
    { label: 'SM occupancy', columns: ['sm_occupancy'], color: 2, thin: true },
    { label: 'tensor cores', columns: ['tensor_active'], color: 3, thin: true, drop: true },
    { label: 'memory bandwidth', columns: ['dram_active'], color: 1, thin: true },
    { label: '"utilisation": any kernel ran', columns: ['busy'], color: 4, dash: [2, 3], thin: true }] },
  { title: 'power', unit: 'watts', height: 110, lines: [
    { label: 'drawn', columns: ['power'], color: 1 },
    { label: 'limit', columns: ['power_limit'], color: 4, dash: [8, 4], thin: true }] },
  { title: 'temperature', unit: 'celsius', height: 110, loose: true, lines: [
    { label: 'GPU', columns: ['temp'], color: 1 },
    { label: 'its memory', columns: ['temp_mem'], color: 3 }] },
  { title: 'throttled by', unit: 'share', height: 90, note: 'Share of the time in which the clocks were throttled, by reason.', held: true },
  { title: 'clock', unit: 'hertz', height: 90, lines: [{ label: 'SMs', columns: ['clock_sm'], color: 2 }] },
  { title: 'traffic', unit: 'rate', height: 110, lines: [
    { label: 'PCIe in', columns: ['pcie_rx'], color: 0, drop: true },
    { label: 'PCIe out', columns: ['pcie_tx'], color: 1, drop: true },
    { label: 'NVLink in', columns: ['nvlink_rx'], color: 2, drop: true },
    { label: 'NVLink out', columns: ['nvlink_tx'], color: 3, drop: true }] },
];
const HELD_COLORS = [1, 3, 0, 2]; // of the throttle reasons, in the order of data.throttles
const HELD_LEAST = 0.05; // share of the time
const HELD_SHOWN = ['activity', 'power', 'temperature', 'clock'];
const GPU_ALL = [
  { title: 'GPU memory in use, each device', unit: 'bytes', column: ['mem'], height: 170 },
  { title: 'SM active, each device', unit: 'share', column: ['sm_active'], height: 150 },
  { title: '"Utilisation" (any kernel ran), each device', unit: 'share', column: ['busy'], height: 130 },
  { title: 'Power, each device', unit: 'watts', column: ['power'], height: 130 },
  { title: 'Temperature, each device', unit: 'celsius', column: ['temp'], height: 110, loose: true },
];

// torch/gpu0/allocated_bytes: a series of a framework's allocator; the device by CUDA's number or its UUID.
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

// Stretches in which the clocks were throttled: {from, to, label, sum: seconds of throttling}.
function throttledStretches(data, run, gpu) {
  const table = run.table('gpu', gpu.id);
  const found = [];
  for (const [name, label] of table ? data.throttles : []) {
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

const heldLines = (data) => data.throttles.map(([name, label], i) => ({ label, columns: [name], color: HELD_COLORS[i], drop: true }));

function gpuCharts(page, data, gpu) {
  const total = gpu.total_bytes ? [{ label: 'total', value: gpu.total_bytes }] : [];
  const single = data.runs.length === 1;
  const more = (c) => c.title === 'memory' && single ? allocatorLines(data.runs[0], gpu) : [];
  const held = single ? throttledStretches(data, data.runs[0], gpu) : [];
  return GPU_CHARTS.map((c) => chart(page, `${gpu.label} ${c.title}`, c.unit, lines(data, 'gpu', gpu.id, c.held ? heldLines(data) : c.lines).concat(more(c)),
    { height: c.height, loose: c.loose, note: c.note, refs: c.title === 'memory' ? total : [], held: HELD_SHOWN.includes(c.title) ? held : [] }));
}

function gpuTogether(page, run, gpus) {
  return GPU_ALL.map((c) => {
    const found = gpus.map((gpu, i) => {
      const table = run.table('gpu', gpu.id);
      const column = table && c.column.map((name) => table.column(name)).find(Boolean);
      return column && { label: gpu.label, color: i, line: lineOf(run, table, column) };
    }).filter((l) => l && l.line.x.length);
    return chart(page, c.title, c.unit, found, { height: c.height, loose: c.loose });
  });
}

function gpus(page, data) {
  const run = data.runs[0];
  const used = run.gpus.filter((gpu) => !gpu.unused);
  const beside = run.gpus.filter((gpu) => gpu.unused);
  if (data.runs.length > 1) return [...used, ...beside].slice(0, 1).flatMap((gpu) => gpuCharts(page, data, gpu));
  const folded = beside.length ? [new Folded(page, `The job used no memory on ${beside.map((gpu) => gpu.label).join(', ')}`, () => gpuTogether(page, run, beside))] : [];
  if (used.length <= FEW_GPUS) return [...used.flatMap((gpu) => gpuCharts(page, data, gpu)), ...folded];
  return [...gpuTogether(page, run, used), ...used.map((gpu) => new Folded(page, `${gpu.label}, ${gpu.name}`, () => gpuCharts(page, data, gpu))), ...folded];
}
