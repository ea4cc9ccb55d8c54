// SPDX-License-Identifier: MIT
// Charts of user series: over time, steps or epochs.

// train/loss and val/loss are two lines of one chart.
const family = (name) => name.split('/').pop().replace(/^(train|val|valid|validation|test|eval)[_.-]/, '');

const TIMES = /(^|\/)(data_wait|step_time)(\/|$)|seconds$/; // as series_is_seconds has it
const unitOf = (name) => name.endsWith('bytes') ? 'bytes' : TIMES.test(name) ? 'seconds' : 'plain';
const logged = (run) => run.tables.filter((t) => t.entity === 'series' && !ALLOCATOR.test(t.columns[0].name));

// [time, step] of each value with a step.
function stepsOf(table) {
  const column = table.column('step');
  if (!column || column === table.columns[0]) return [];
  return table.t.map((t, row) => [t + table.span[row] / 2, column.mean[row]]).filter(([, step]) => step !== null);
}

function stepLink(run) {
  const longest = logged(run).filter((t) => t.column('step')).reduce((a, b) => a && a.rows >= b.rows ? a : b, null);
  return longest && linkOf(stepsOf(longest));
}

// The first and the last step of all, in a loop: a report may have millions.
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

// Begin and end of each epoch: from phases with epoch=N, else from a series of that name.
function epochLink(run) {
  const numbered = run.phases.map((p) => [p, /^epoch=(\d+(?:\.\d+)?)$/m.exec(p.facts || '')]).filter(([, found]) => found);
  const outer = numbered.filter(([p]) => !numbered.some(([q]) => q.number === p.parent));
  if (outer.length) {
    return linkOf(outer.flatMap(([p, found]) => [[p.begin_ns / 1e9, Number(found[1])], [p.end_ns === null ? run.end : p.end_ns / 1e9, Number(found[1]) + 1]]));
  }
  const table = logged(run).find((t) => t.columns[0].name === 'epoch');
  return table ? linkOf(table.t.map((t, row) => [t, table.columns[0].mean[row]]).filter(([, epoch]) => Number.isFinite(epoch))) : null;
}

const isPlace = (place) => place !== null && place !== undefined;

// A line moved to other places, in their order; points without one are left out.
function moved(line, places) {
  const rows = [...places.keys()].filter((row) => isPlace(places[row])).sort((a, b) => places[a] - places[b] || a - b);
  const pick = (list) => rows.map((row) => list[row]);
  const placeAt = new Map(line.x.map((x, row) => [x, places[row]]));
  return { ...line, x: pick(places), mean: pick(line.mean), low: pick(line.low), high: pick(line.high),
    special: line.special.map(([x, text]) => [placeAt.get(x), text]).filter(([x]) => isPlace(x)) };
}

// The axes that charts of user series can have. placer(run, table) returns a function from a row of the table's line to its place.
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
      const placeOf = over && over.placer && over.placer(run, table);
      const has = (value, row) => value !== null && (!placeOf || isPlace(placeOf(row)));
      const [title, unit] = [family(column.name), unitOf(column.name)];
      const key = `${unit} ${title}`; // step_time/rank0 and loss/rank0 have no axis in common
      if (!groups.has(key)) groups.set(key, { title, unit, found: [] });
      const group = groups.get(key).found;
      const label = data.runs.length > 1 ? `${column.name}, ${run.label}` : column.name;
      const make = () => placeOf ? moved(lineOf(run, table, column), rowsOf(column).map(placeOf)) : lineOf(run, table, column);
      if (column.mean.some(has)) group.push({ label, color: data.runs.length > 1 ? r : group.length, make });
    }
  });
  return [...groups.values()].map(({ title, unit, found }) =>
    chart(page, title, unit, found, { loose: unit === 'plain', height: 150, view: over && over.view }));
}

// The charts of user series, with a switch: over time, steps or epochs.
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
