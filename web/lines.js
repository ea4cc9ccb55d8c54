// SPDX-License-Identifier: MIT
// Lines of values: how long each is valid, the gaps between them, their sums.

// Plain loops and arrays of numbers: a report may have a million values.

// The rows of a column that were read.
function rowsOf(column) {
  const read = [];
  for (let row = 0; row < column.mean.length; row++) if (column.mean[row] !== null) read.push(row);
  return read;
}

// How long a value is valid: three and a half usual intervals. A longer silence is a gap.
function holdOf(run, table, read) {
  const between = new Float64Array(Math.max(0, read.length - 1));
  for (let i = 0; i < between.length; i++) between[i] = table.t[read[i + 1]] - table.t[read[i]];
  const usual = between.length ? between.sort()[Math.floor(between.length * 0.9)] : 0;
  return 3.5 * Math.max((run.window_ns || 1e9) / 1e9, usual);
}

// Points in the middle of their rows, joined by slopes. Values that are not finite become special marks.
function putSlopes(line, table, column, read) {
  const of = (values) => read.map((row) => Number.isFinite(column.mean[row]) ? values[row] : null);
  line.x = read.map((row) => table.t[row] + table.span[row] / 2);
  line.mean = of(column.mean);
  [line.low, line.high] = column.band ? [of(column.low), of(column.high)] : [line.mean, line.mean];
  for (let i = 0; i < read.length; i++) if (line.mean[i] === null) line.special.push([line.x[i], String(column.mean[read[i]])]);
}

// Flat while a value is valid, with a gap between values that are further apart.
function putSteps(line, table, column, read) {
  const put = (x, mean, low, high) => {
    line.x.push(x);
    line.mean.push(mean);
    line.low.push(low);
    line.high.push(high);
  };
  const putRow = (x, row) => put(x, column.mean[row], column.low[row], column.high[row]);
  const endOf = (row) => table.t[row] + table.span[row];
  read.forEach((row, i) => {
    const before = i ? read[i - 1] : null;
    const isNew = before === null || table.t[row] - endOf(before) > line.hold;
    if (isNew && before !== null) {
      if (line.align > 0 && table.span[before] > 0) putRow(endOf(before), before);
      put((endOf(before) + table.t[row]) / 2, null, null, null);
    }
    const isLong = table.span[row] > 0;
    if (line.align > 0 || isNew) putRow(table.t[row], row);
    if (line.align < 0 ? isLong || !isNew : isLong && i === read.length - 1) putRow(endOf(row), row);
  });
}

// The line of a column. align, how its values are drawn: 1, each is valid until the next one; -1, since the previous one
// (rates); 0, joined by slopes (series).
function lineOf(run, table, column) {
  const read = rowsOf(column);
  const align = table.entity === 'series' ? 0 : column.rate ? -1 : 1;
  const line = { x: [], mean: [], low: [], high: [], band: column.band, special: [], hold: align ? holdOf(run, table, read) : 0, align };
  (align ? putSteps : putSlopes)(line, table, column, read);
  return run.shift ? { ...line, x: line.x.map((x) => x + run.shift), special: line.special.map(([x, text]) => [x + run.shift, text]) } : line;
}

// The sum of columns of one table, in rows where all are known.
function added(columns) {
  if (columns.length === 1) return columns[0];
  const sum = (part) => columns[0][part].map((_, i) => columns.every((c) => c[part][i] !== null)
    ? columns.reduce((s, c) => s + c[part][i], 0) : null);
  const mean = sum('mean');
  const band = columns.some((c) => c.band);
  return { rate: columns[0].rate, band, mean, low: band ? sum('low') : mean, high: band ? sum('high') : mean };
}

// The values of a line at other times.
function valuesAt(line, times) {
  return times.map((time) => {
    const row = rowAt(line, time);
    return row < 0 ? null : line.mean[row];
  });
}

// The times of several lines, and one right behind the end of each, where its value is gone.
function timesOf(lines) {
  const ends = lines.map((l) => l.x[l.x.length - 1] + 1e-9);
  return [...new Set(lines.flatMap((l) => l.x).concat(ends))].sort((a, b) => a - b);
}

// The sum of lines, of those that have a value.
function together(lines) {
  const x = timesOf(lines);
  const values = lines.map((l) => valuesAt(l, x));
  const mean = x.map((_, i) => values.some((v) => v[i] !== null) ? values.reduce((sum, v) => sum + (v[i] || 0), 0) : null);
  return { x, mean, low: mean, high: mean, band: false, special: [], align: lines[0].align };
}

// Stacked lines: one without a value adds nothing.
function stacked(lines) {
  const x = timesOf(lines);
  let below = new Array(x.length).fill(0);
  return lines.map((line) => {
    const value = valuesAt(line, x);
    below = below.map((b, i) => b + (value[i] || 0));
    return { ...line, x, value, mean: below, low: below, high: below, band: false };
  });
}

// The number of points before a time.
function placesBefore(line, time) {
  let low = 0;
  let high = line.x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line.x[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The row that is valid at a time, for series the nearest one; -1: none.
function rowAt(line, time) {
  const next = placesBefore(line, time);
  const { x, align } = line;
  if (x[next] === time) return next;
  if (align) return next === 0 || next === x.length ? -1 : align > 0 ? next - 1 : next;
  if (next === x.length) return next - 1;
  return next > 0 && time - x[next - 1] < x[next] - time ? next - 1 : next;
}

// The lowest and the highest value between two times; null if there is none.
function extremes(line, min, max) {
  const [low, high] = line.value ? [line.value, line.value] : [line.low, line.high];
  let found = null;
  const { x, align } = line;
  for (let i = 0; i < x.length; i++) {
    const from = align < 0 && i ? x[i - 1] : x[i];
    const to = align > 0 && i + 1 < x.length ? x[i + 1] : x[i];
    if (high[i] === null || to < min || from > max || (from < to && (to === min || from === max))) continue;
    if (found === null) found = [low[i], high[i]];
    else if (high[i] > found[1]) found[1] = high[i];
    if (low[i] < found[0]) found[0] = low[i];
  }
  return found;
}

const highest = (line) => (extremes(line, 0, Infinity) || [0, 0])[1];
