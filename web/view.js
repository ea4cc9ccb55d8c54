// SPDX-License-Identifier: MIT
// The one time axis of all charts: what of it is shown, where the crosshair stands.

const LEAST = 0.01; // seconds that one can zoom in to

class View {
  constructor(end) {
    this.end = Math.max(end, LEAST);
    this.min = 0;
    this.max = this.end;
    this.cursor = null;
    this.evidence = null; // [from, to] of what was last asked for
    this.watchers = [];
  }

  watch(watcher) {
    this.watchers.push(watcher);
  }

  tell(what) {
    for (const watcher of this.watchers) watcher(what);
  }

  show(min, max) {
    const width = Math.min(Math.max(max - min, LEAST), this.end);
    this.min = Math.min(Math.max(0, min), this.end - width);
    this.max = this.min + width;
    this.tell('range');
  }

  // A stretch with some of what is around it.
  showAround(from, to) {
    const margin = Math.max((to - from) * 0.08, this.end / 500);
    this.evidence = [from, to];
    this.show(from - margin, to + margin);
  }

  all() {
    this.evidence = null;
    this.show(0, this.end);
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
    this.tell('cursor');
  }

  step(share) {
    const from = this.cursor === null ? (this.min + this.max) / 2 : this.cursor;
    this.point(from + (this.max - this.min) * share);
  }
}
