// SPDX-License-Identifier: MIT
// Charts of the job and its machine: memory, CPUs, storage, network.

const STACKED = 5; // processes that have an area and a colour of their own

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
      return { label: w.label, color: w.color ?? i, dash: w.dash, thin: w.thin, lead: w.lead, line };
    }).filter(Boolean);
    const label = (l) => wanted.length > 1 ? `${run.label}: ${l.label}` : run.label;
    return single ? found : [...found.filter((l) => l.lead), ...found].slice(0, 1).map((l) => ({ ...l, label: label(l), color: r }));
  });
}

function chart(page, title, unit, found, more = {}) {
  return found.length ? new Chart(page, { title, unit, lines: found, ...more }) : null;
}

function ramRefs(run) {
  const refs = [];
  if (run.request_bytes) refs.push({ label: 'requested', value: run.request_bytes });
  if (run.limit_bytes && run.limit_bytes !== run.request_bytes && run.limit_bytes < (run.capacity_bytes || Infinity)) refs.push({ label: 'limit', value: run.limit_bytes });
  if (run.capacity_bytes) refs.push({ label: 'total of this machine', value: run.capacity_bytes });
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
    chart(page, 'RAM of the job', 'bytes', lines(data, 'job', 0, wanted), { height: 220, note: 'Pages mapped by several processes count once.', refs: single ? ramRefs(run) : [], flags: single ? ramFlag(run) : [] }),
    single && byProcess(page, run, 'rss', 'RAM by process', 'bytes', 'Resident sizes, stacked: pages mapped by several processes count in each, so the top can lie above the previous chart.'),
    chart(page, 'RAM of the machine', 'bytes', lines(data, 'host', 0, [
      { label: 'in use, system-wide', columns: ['mem_used'], color: 4, thin: true },
      { label: 'swap', columns: ['swap_used'], color: 1, drop: true }]), { height: 110, refs: single ? ramRefs(run).slice(-1) : [] }),
  ];
}

function processors(page, data) {
  const run = data.runs[0];
  const single = data.runs.length === 1;
  const refs = single && run.cpus ? [{ label: 'the job may use', value: Math.min(run.cpus, (run.limit_cpu_ppm || Infinity) / 1e6) }] : [];
  return [
    chart(page, 'CPUs used by the job', 'cores', lines(data, 'job', 0, [
      { label: 'job', columns: ['cpu_user', 'cpu_system'], color: 0 },
      { label: "job, in the kernel", columns: ['cpu_system'], color: 1, thin: true }]).concat(single ? lines(data, 'host', 0, [
      { label: 'system-wide', columns: ['cpu_user', 'cpu_system'], color: 4, dash: [2, 3], thin: true },
      { label: 'idle, waiting for disks', columns: ['cpu_iowait'], color: 3, drop: true, thin: true }]) : []), { height: 170, refs }),
    single && byProcess(page, run, 'cpu', 'CPUs by process', 'cores'),
    chart(page, 'Tasks waiting', 'share', single ? lines(data, 'host', 0, [
      { label: 'for a CPU', columns: ['psi_cpu'], color: 0, drop: true },
      { label: 'for memory', columns: ['psi_mem'], color: 1, drop: true },
      { label: 'for a disk', columns: ['psi_io'], color: 2, drop: true }]) : [], { height: 90, note: 'Share of the time in which at least one task of the machine waited (PSI).' }),
    chart(page, "Throttled by the cgroup's CPU quota", 'share', lines(data, 'job', 0, [{ label: 'time', columns: ['cgroup_throttled'], color: 1, drop: true }]), { height: 90 }),
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
      { label: "machine's disks write", columns: ['disk_write'], color: 3, dash: [2, 3], thin: true, drop: true }])), { height: 120, note: 'Data deleted before it reached storage does not count as written, from the time its deletion was seen.' }),
    chart(page, 'Network of the machine', 'rate', lines(data, 'host', 0, [
      { label: 'received', columns: ['net_rx'], color: 0, drop: true },
      { label: 'sent', columns: ['net_tx'], color: 1, drop: true }]), { height: 110 }),
    chart(page, 'Power of the CPU packages', 'watts', lines(data, 'host', 0, [{ label: 'drawn', columns: ['energy'], color: 1 }]), { height: 100 }),
  ];
}
