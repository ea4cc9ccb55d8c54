// SPDX-License-Identifier: MIT
// Reads the data that the page carries (docs/report.md; src/sink/html/html_encode.h writes it).

const SPECIAL = [null, NaN, Infinity, -Infinity]; // codes below FIRST_NUMBER
const FIRST_NUMBER = 4;
const FACTORS = { bytes: 1, ppm: 1e-6, uw: 1e-6, uj: 1e-6, mcel: 1e-3, ns: 1e-9, hz: 1, count: 1, '': 1 };

function binary(base64) {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
  return found;
}

async function inflated(packed) {
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('This browser is too old to unpack the data of the charts (it has no DecompressionStream; Chrome 80, ' +
      'Firefox 113, Safari 16.4 and later have). All figures, tables and pictures are on the page.');
  }
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function reader(all) {
  let at = 0;
  const length = () => {
    at += 4;
    return all[at - 4] + all[at - 3] * 256 + all[at - 2] * 65536 + all[at - 1] * 16777216;
  };
  return {
    json() {
      const end = length() + at;
      const text = new TextDecoder().decode(all.subarray(at, end));
      at = end;
      return JSON.parse(text);
    },
    numbers() {
      length();
    },
    double() {
      at += 8;
      return new DataView(all.buffer, all.byteOffset + at - 8, 8).getFloat64(0, true);
    },
    varint() {
      let value = 0;
      let scale = 1;
      for (;;) {
        const byte = all[at++];
        value += (byte & 127) * scale;
        if (byte < 128) return value;
        scale *= 128;
      }
    },
  };
}

function unzigzag(code) {
  return code % 2 ? -(code + 1) / 2 : code / 2;
}

// mean, low and high are in base units; null where nothing was read.
function readColumn(input, column, rows) {
  const factor = column.step * FACTORS[column.unit];
  const steps = column.band ? new Array(rows).fill(null) : null;
  let last = 0;
  column.mean = new Array(rows); // not filled: numbers among nulls would be objects, each of them
  for (let i = 0; i < rows; i++) {
    const code = input.varint();
    if (code < FIRST_NUMBER) {
      column.mean[i] = SPECIAL[code];
    } else if (column.step === 0) {
      column.mean[i] = input.double();
    } else {
      last += unzigzag(code - FIRST_NUMBER);
      if (steps) steps[i] = last;
      column.mean[i] = last * factor;
    }
  }
  const edge = (sign) => steps.map((n) => n === null ? null : (n + sign * input.varint()) * factor);
  column.low = column.band ? edge(-1) : column.mean;
  column.high = column.band ? edge(1) : column.mean;
}

function readTable(input, table) {
  const second = table.unit_ns / 1e9;
  let last = 0;
  const times = (read) => {
    const list = new Array(table.rows);
    for (let row = 0; row < table.rows; row++) list[row] = read() * second;
    return list;
  };
  table.t = times(() => (last += input.varint()));
  table.span = times(() => input.varint());
  for (const column of table.columns) readColumn(input, column, table.rows);
  table.column = (name, process) => table.columns.find((c) => c.name === name && (process === undefined || c.process === process));
}

// The header, with the numbers of each table in it and the summary of each run.
async function readData(base64) {
  const input = reader(await inflated(binary(base64)));
  const data = input.json();
  for (const run of data.runs) run.summary = input.json();
  input.numbers();
  for (const run of data.runs) {
    for (const table of run.tables) readTable(input, table);
    run.table = (entity, id) => run.tables.find((t) => t.entity === entity && (!id || t.id === id));
    run.end = Math.max(run.now_ns / 1e9, ...run.tables.map((t) => t.rows ? t.t[t.rows - 1] : 0)); // the last sample may be slightly behind the end
  }
  return data;
}
