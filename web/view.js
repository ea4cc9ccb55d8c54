// SPDX-License-Identifier: MIT
// The time axis that all charts share: its visible range and the crosshair. And axes of steps or epochs for user series, which
// follow it where each place has one time.

const LEAST = 0.01; // seconds: the shortest visible range
const SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600,
  43200, 86400, 172800, 432000, 864000];
const COUNTS = Array.from({ length: 60 }, (_, i) => [1, 2, 5][i % 3] * 10 ** (Math.floor(i / 3) - 2));

class View {
  constructor(end, begin = 0) {
    this.begin = begin;
    this.end = Math.max(end, begin + LEAST);
    this.min = begin;
    this.max = this.end;
    this.increments = SECONDS;
    this.cursor = null;
    this.evidence = null; // [from, to] of the finding, phase or process that was chosen last
    this.watchers = [];
  }

  place(time) {
    return time;
  }

  words(value, step) {
    return clock(value, step);
  }

  watch(watcher) {
    this.watchers.push(watcher);
  }

  notify(what) {
    for (const watcher of this.watchers) watcher(what);
  }

  show(min, max) {
    const width = Math.min(Math.max(max - min, LEAST), this.end - this.begin);
    this.min = Math.min(Math.max(this.begin, min), this.end - width);
    this.max = this.min + width;
    this.notify('range');
  }

  // Shows a stretch with a margin.
  showAround(from, to) {
    const margin = Math.max((to - from) * 0.08, (this.end - this.begin) / 500);
    this.evidence = [from, to];
    this.show(from - margin, to + margin);
  }

  all() {
    this.evidence = null;
    this.show(this.begin, this.end);
  }

  zoom(factor) {
    const at = this.cursor !== null && this.cursor >= this.min && this.cursor <= this.max ? this.cursor : (this.min + this.max) / 2;
    this.show(at - (at - this.min) * factor, at + (this.max - at) * factor);
  }

  pan(share) {
    const by = (this.max - this.min) * share;
    this.show(this.min + by, this.max + by);
  }

  point(time) {
    this.cursor = time === null ? null : Math.min(Math.max(time, this.min), this.max);
    this.notify('cursor');
  }

  step(share) {
    const from = this.cursor === null ? (this.min + this.max) / 2 : this.cursor;
    this.point(from + (this.max - this.min) * share);
  }
}

// Maps places to times, two lists that rise together. Null where they do not, as after a restart from an earlier step.
function linkOf(pairs) {
  const rising = [];
  for (const [time, place] of pairs) {
    const last = rising[rising.length - 1];
    if (last && place < last[1]) return null;
    if (!last || (place > last[1] && time > last[0])) rising.push([time, place]);
  }
  if (rising.length < 2) return null;
  const between = (from, to) => (value) => {
    let low = 1;
    let high = rising.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rising[middle][from] < value) low = middle + 1;
      else high = middle;
    }
    const [a, b] = [rising[low - 1], rising[low]];
    return a[to] + Math.min(Math.max((value - a[from]) / (b[from] - a[from]), 0), 1) * (b[to] - a[to]);
  };
  return { place: between(0, 1), time: between(1, 0), begin: rising[0][1], end: rising[rising.length - 1][1] };
}

// An axis of steps or epochs.
class Places extends View {
  constructor(time, begin, end, link) {
    super(end, begin);
    this.time = time;
    this.link = link;
    this.place = link ? link.place : null;
    this.increments = COUNTS;
    if (link) time.watch((what) => this.led(what));
  }

  words(value) {
    return digits(value);
  }

  led(what) {
    const { time, link } = this;
    if (what === 'cursor') super.point(time.cursor === null ? null : link.place(time.cursor));
    else if (time.min === time.begin && time.max === time.end) super.show(this.begin, this.end);
    else super.show(link.place(time.min), link.place(time.max));
  }

  show(min, max) {
    if (this.link) this.time.show(this.link.time(min), this.link.time(max));
    else super.show(min, max);
  }

  all() {
    if (this.link) this.time.all();
    else super.show(this.begin, this.end);
  }

  point(place) {
    if (this.link) this.time.point(place === null ? null : this.link.time(place));
    else super.point(place);
  }
}
