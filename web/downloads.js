// SPDX-License-Identifier: MIT
// The data of the page as files.

function save(name, type, text) {
  const link = element('a', { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const csvField = (v) => v === null ? '' : /[",\r\n]/.test(String(v)) ? `"${String(v).replace(/"/g, '""')}"` : String(v);
const SUFFIX = { bytes: '_bytes', ppm: '_ratio', uw: '_watts', mcel: '_celsius', hz: '_hertz', count: '', ns: '_seconds', uj: '_joules', '': '' };

// As in the columns of an export: the unit once, at the end.
function columnName(column, part) {
  const name = column.name + (column.process !== undefined ? '_' + column.process : '') + part;
  const suffix = SUFFIX[column.unit];
  const hasTime = column.rate && column.unit !== 'ppm' && column.unit !== 'uw';
  return name + (name.endsWith(suffix) ? '' : suffix) + (hasTime ? '_per_second' : '');
}

function csvOf(table) {
  const columns = table.columns.flatMap((c) => c.band
    ? [[columnName(c, '_min'), c.low], [columnName(c, '_mean'), c.mean], [columnName(c, '_max'), c.high]]
    : [[columnName(c, ''), c.mean]]);
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
