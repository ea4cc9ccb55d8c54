// SPDX-License-Identifier: MIT
// Phases, marks and alerts, and the lifetimes of processes, as bars.

const WORDS = { mark: 'mark', alert: 'alert', cleared: 'cleared', oom: 'out of memory', gap: 'no samples', trigger: 'trigger', note: 'note', exec: 'exec' };
const SHOWN_EVENTS = ['mark', 'alert', 'cleared', 'oom', 'trigger'];

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
  return run.events.filter((e) => SHOWN_EVENTS.includes(e.kind)).map((e) => {
    const t = e.t_ns / 1e9;
    return { from: t, to: t, at: true, lane, alert: e.kind !== 'mark', hollow: e.kind === 'cleared', label: e.kind === 'cleared' ? '' : e.text || WORDS[e.kind], title: `${WORDS[e.kind]} at ${duration(t)}: ${e.text}` };
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
  return new Lanes(page, { title: 'Phases and events', names, lanes: names.length, bars: [...phases, ...events] });
}

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
      title: `${name}: from ${duration(from)} for ${duration(to - from)}, peak${peak || ' unknown'}, CPU time ${p.cpu_ns === null ? 'unknown' : duration(p.cpu_ns / 1e9)}` };
  });
  if (!bars.length) return null;
  const more = run.processes.length - kept.length + run.processes_more;
  return new Lanes(page, { title: 'Lifetimes and peaks', lanes: bars.length, bars, note: more > 0 ? `and ${more} smaller processes` : undefined });
}
