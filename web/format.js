// SPDX-License-Identifier: MIT
// Amounts as people read them, as src/base/units.c writes them: at most three significant digits, units with their names.

const DASH = '\u2013';
const MANY = 200; // at most so many bars and moments behind the lines, which could not be distinguished otherwise
const $ = (id) => document.getElementById(id);

function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 99.95) return size < 1e6 ? String(Math.round(value)) : value.toExponential(2);
  return size >= 0.001 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
}

function scaled(value, base, names) {
  let i = 0;
  while (i < names.length - 1 && Math.abs(value) >= base * 0.9995) {
    value /= base;
    i++;
  }
  return digits(value) + '\u00a0' + names[i];
}

const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const bytes = (v) => scaled(v, 1024, BINARY);

const SPANS = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];

// A time as units_duration in src/base/units.c writes it: "827 us", "12.3 ms", "76 s", "12 min 40 s", "2 h 14 min".
function duration(seconds) {
  const s = Math.max(0, seconds);
  if (s === 0) return '0\u00a0s';
  if (s < 0.0009995) return digits(s * 1e6) + '\u00a0us';
  if (s < 0.9995) return digits(s * 1000) + '\u00a0ms';
  if (s < 99.95) return digits(s) + '\u00a0s';
  const exact = Math.round(s);
  const i = SPANS.findIndex(([, size]) => exact >= size);
  const [, small] = SPANS[i + 1]; // the smaller unit takes the rounding
  return spans(Math.round(exact / small) * small, small);
}

// A number of seconds in units down to one of so many seconds: "1 h 2 min".
function spans(seconds, least) {
  const words = [];
  for (const [name, size] of SPANS) {
    if (size < least) break;
    const n = Math.floor(seconds / size);
    if (n) words.push(n + '\u00a0' + name);
    seconds -= n * size;
  }
  return words.join(' ');
}

// The two ends of a stretch; one of them where both read the same.
function stretchWords(from, to) {
  const [begin, end] = [duration(from), duration(to)];
  return begin === end ? begin : `${begin} ${DASH} ${end}`;
}

// A name that does not fit loses its middle: its end often distinguishes it from others.
function shortened(text, fits) {
  let short = text;
  for (let left = text.length - 1; left > 3 && !fits(short); left--) short = text.slice(0, Math.ceil(left / 2)) + '\u2026' + text.slice(text.length - Math.floor(left / 2));
  return short;
}

// A place on a time axis whose marks are step apart: "41 min 7 s", with decimals where the steps are small.
function clock(seconds, step) {
  const places = step >= 1 ? 0 : Math.min(3, Math.ceil(-Math.log10(step)));
  const all = Number(seconds.toFixed(places));
  if (all < 100) return all === 0 ? '0' : all + '\u00a0s';
  const whole = Math.floor(all / 60) * 60;
  const rest = Number((all - whole).toFixed(places));
  return spans(whole, 60) + (rest ? ` ${rest}\u00a0s` : '');
}

// How the values of a chart are written, and where the marks of its axis stand.
const UNITS = {
  bytes: { text: bytes, base: 1024 },
  rate: { text: (v) => bytes(v) + '/s', base: 1024 },
  share: { text: (v) => digits(v * 100) + '\u00a0%', base: 10, top: 1 },
  cores: { text: (v) => (v >= 0.01 && v < 10 ? String(Number(v.toFixed(2))) : digits(v)) + (v === 1 ? '\u00a0core' : '\u00a0cores'), base: 10 },
  watts: { text: (v) => digits(v) + '\u00a0W', base: 10 },
  celsius: { text: (v) => digits(v) + '\u00a0\u00b0C', base: 10 },
  hertz: { text: (v) => scaled(v, 1000, ['Hz', 'kHz', 'MHz', 'GHz']), base: 10 },
  seconds: { text: (v) => v < 0 ? DASH : duration(v), base: 10 },
  count: { text: digits, base: 10, whole: true },
  plain: { text: digits, base: 10 },
};
