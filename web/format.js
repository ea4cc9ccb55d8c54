// SPDX-License-Identifier: MIT
// Numbers as people read them: three significant digits, units with their names.

const DASH = '\u2013';
const MANY = 200; // bars and moments behind lines that can still be told apart
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

function duration(seconds) {
  const s = Math.max(0, seconds);
  if (s < 1) return digits(s * 1000) + '\u00a0ms';
  if (s < 60) return digits(s) + '\u00a0s';
  const whole = Math.floor(s + 0.5);
  const two = (n) => String(n).padStart(2, '0');
  return Math.floor(whole / 3600) + ':' + two(Math.floor(whole / 60) % 60) + ':' + two(whole % 60);
}

// From when to when; once, where both are the same in words.
function stretchWords(from, to) {
  const [begin, end] = [duration(from), duration(to)];
  return begin === end ? begin : `${begin} ${DASH} ${end}`;
}

// A name that does not fit gives up its middle: what tells it from others is often its end.
function shortened(text, fits) {
  let short = text;
  for (let left = text.length - 1; left > 3 && !fits(short); left--) short = text.slice(0, Math.ceil(left / 2)) + '\u2026' + text.slice(text.length - Math.floor(left / 2));
  return short;
}

// Of a time axis whose marks are step apart: 0:41:07, with decimals where the steps are small.
function clock(seconds, step) {
  const places = step >= 1 ? 0 : Math.min(3, Math.ceil(-Math.log10(step)));
  const two = (n) => String(n).padStart(2, '0');
  const all = Number(seconds.toFixed(places));
  const rest = (all % 60).toFixed(places).padStart(places ? places + 3 : 2, '0');
  return (all >= 3600 ? Math.floor(all / 3600) + ':' + two(Math.floor(all / 60) % 60) : Math.floor(all / 60)) + ':' + rest;
}

// How the values of a chart are written, and where the marks of its axis stand.
const UNITS = {
  bytes: { text: bytes, base: 1024 },
  rate: { text: (v) => bytes(v) + '/s', base: 1024 },
  share: { text: (v) => digits(v * 100) + '\u00a0%', base: 10, top: 1 },
  cores: { text: (v) => digits(v) + (v === 1 ? '\u00a0core' : '\u00a0cores'), base: 10 },
  watts: { text: (v) => digits(v) + '\u00a0W', base: 10 },
  celsius: { text: (v) => digits(v) + '\u00a0\u00b0C', base: 10 },
  hertz: { text: (v) => scaled(v, 1000, ['Hz', 'kHz', 'MHz', 'GHz']), base: 10 },
  seconds: { text: (v) => v < 0 ? DASH : duration(v), base: 10 },
  count: { text: digits, base: 10, whole: true },
  plain: { text: digits, base: 10 },
};
