// SPDX-License-Identifier: MIT
// Charts on one time axis: lines of means in bands from lowest to highest, so that a peak is visible at any zoom.

const gutter = (width) => width < 520 ? 62 : 78;
const LABELS = 132; // room for the names of lines at their ends, where the page is wide
const WIDE = 860;
const PALETTES = {
  light: ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#000000'],
  dark: ['#56B4E9', '#E69F00', '#009E73', '#CC79A7', '#FFFFFF'],
};
const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4]];
const INKS = {
  light: { text: '#4b5563', grid: '#e5e7eb', back: '#ffffff', phase: 'rgba(0,114,178,.05)', evidence: 'rgba(230,159,0,.18)', gap: 'rgba(107,114,128,.16)', held: 'rgba(230,159,0,.16)', heldEdge: '#b45309', mark: '#6b7280', alert: '#c2410c' },
  dark: { text: '#9ca3af', grid: '#283244', back: '#111827', phase: 'rgba(86,180,233,.06)', evidence: 'rgba(230,159,0,.22)', gap: 'rgba(156,163,175,.16)', held: 'rgba(230,159,0,.2)', heldEdge: '#f59e0b', mark: '#9ca3af', alert: '#fb923c' },
};
const REACH = 2.5; // a limit further above the lines is written next to them, not drawn
const WHOLE = Array.from({ length: 30 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));
const POWERS = Array.from({ length: 60 }, (_, i) => 2 ** i);

const PATHS = { 0: uPlot.paths.linear(), 1: uPlot.paths.stepped({ align: 1 }), '-1': uPlot.paths.stepped({ align: -1 }) };

// Steps while they are visible: uPlot thins out slopes alone.
const pathsOf = (line) => (u, series, from, to) => PATHS[to - from > 3 * u.width ? 0 : line.align](u, series, from, to);

let theme = 'light';
const color = (i) => PALETTES[theme][i % 5];
const dash = (i) => DASHES[Math.floor(i / 5) % DASHES.length];
const ink = (name) => INKS[theme][name];

function fade(hex, alpha) {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16},${n >> 8 & 255},${n & 255},${alpha})`;
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === 'class') made.className = value;
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
}

// ---- common to all charts: axis, crosshair, zoom, events behind the lines ----

function timeAxis(view, quiet) {
  return {
    stroke: ink('text'),
    grid: { stroke: ink('grid'), width: 1 },
    ticks: { show: !quiet, stroke: ink('grid'), width: 1, size: 4 },
    font: '11px system-ui, sans-serif',
    size: quiet ? 4 : 24,
    gap: 2,
    space: 90,
    values: (u, splits, axis, space, step) => quiet ? splits.map(() => '') : splits.map((v) => view.words(v, step)),
    incrs: view.increments,
  };
}

// Calls draw with a context that is clipped to the plot, and a function from axis places to canvas pixels.
function onPlot(u, draw) {
  const { left, top, width, height } = u.bbox;
  const ctx = u.ctx;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  draw(ctx, (t) => Math.round(u.valToPos(t, 'x', true)), { left, top, width, height });
  ctx.restore();
}

function drawBehind(u, page, view, held) {
  if (!view.place) return; // an axis without times
  onPlot(u, (ctx, toCanvas, box) => {
    const x = (time) => toCanvas(view.place(time));
    const stretch = (from, to, style) => {
      ctx.fillStyle = style;
      ctx.fillRect(x(from), box.top, Math.max(1, x(to) - x(from)), box.height);
    };
    page.bands.forEach((band, i) => i % 2 === 0 && stretch(band.from, band.to, ink('phase')));
    for (const gap of page.gaps) stretch(gap.from, gap.to, ink('gap'));
    for (const band of held || []) stretch(band.from, band.to, ink('held'));
    for (const band of held || []) {
      ctx.fillStyle = ink('heldEdge');
      ctx.fillRect(x(band.from), box.top, Math.max(1, x(band.to) - x(band.from)), 4 * devicePixelRatio);
    }
    if (page.view.evidence) stretch(...page.view.evidence, ink('evidence'));
  });
}

// Drawn over the grid: its lines are at whole seconds, where many alerts are, too.
function drawMoments(u, page, view) {
  if (!view.place) return;
  onPlot(u, (ctx, toCanvas, box) => {
    for (const event of page.moments) {
      const x = toCanvas(view.place(event.t)) + 0.5;
      ctx.strokeStyle = ink(event.alert ? 'alert' : 'mark');
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash(event.alert ? [] : [4, 4]);
      ctx.globalAlpha = 0.55;
      ctx.beginPath();
      ctx.moveTo(x, box.top);
      ctx.lineTo(x, box.top + box.height);
      ctx.stroke();
    }
  });
}

class Panel {
  constructor(page, spec) {
    this.page = page;
    this.spec = spec;
    this.view = spec.view || page.view;
    this.values = element('span', { class: 'values' });
    this.place = element('div', { class: 'plot' });
    this.root = element('figure', { class: 'chart', 'aria-label': spec.title },
      element('figcaption', {}, element('span', { class: 'title' }, spec.title), this.values), this.place);
    if (spec.note) this.root.append(element('p', { class: 'note' }, spec.note));
    this.plot = null;
    this.place.style.minHeight = spec.height + 'px';
    this.place.addEventListener('mousedown', () => {
      this.isPressed = true;
      document.addEventListener('mouseup', () => { this.isPressed = false; }, { once: true, capture: true });
    });
  }

  width() {
    return this.page.paper || Math.max(200, this.place.clientWidth);
  }

  options() {
    const { view } = this;
    return {
      width: this.width(),
      height: this.spec.height,
      padding: [6, this.width() > WIDE && !this.spec.bare ? LABELS : 20, 0, 0], // half of the last time label is right of the axis
      legend: { show: false },
      scales: { x: { time: false, range: () => [view.min, view.max] } },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => (view.all(), null) },
      },
      select: { show: true },
      hooks: {
        drawClear: [(u) => drawBehind(u, this.page, this.view, this.spec.held)],
        drawAxes: [(u) => drawMoments(u, this.page, this.view)],
        setCursor: [(u) => this.moved(u)],
        setSelect: [(u) => this.selected(u)],
      },
    };
  }

  moved(u) {
    if (this.following) return;
    const { left } = u.cursor;
    this.view.point(left === null || left === undefined || left < 0 ? null : u.posToVal(left, 'x'));
  }

  selected(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.view.show(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'));
  }

  follow(what) {
    if (!this.plot) return;
    const { view } = this;
    this.following = true;
    if (what === 'range') this.plot.batch(() => this.plot.setScale('x', { min: view.min, max: view.max })); // at once: deferred, it would report the old crosshair
    const left = view.cursor === null ? -10 : this.plot.valToPos(view.cursor, 'x');
    if (!this.isPressed) this.plot.setCursor({ left, top: view.cursor === null ? -10 : 0 }, false); // or a drag over the edge would reverse
    this.following = false;
    this.showValues();
  }

  showValues() {}

  // Not drawn yet, or at another stretch than the others.
  isBehind() {
    const { view } = this;
    return !this.plot || this.plot.scales.x.min !== view.min || this.plot.scales.x.max !== view.max;
  }

  catchUp() {
    if (!this.plot) this.build();
    else this.follow('range');
  }

  build() {
    this.drop();
    this.plot = this.make();
    this.page.count++;
    this.showValues();
  }

  drop() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
  }

  resize() {
    if (this.plot && this.plot.width !== this.width()) this.build();
  }
}

// ---- a chart of lines ----

class Chart extends Panel {
  constructor(page, spec) {
    super(page, { height: 150, ...spec });
    this.unit = UNITS[spec.unit];
    this.lines = spec.lines.map((l, i) => ({ ...l, number: i, alone: l.line })); // make() computes long lines when they are first drawn
    this.pile();
    this.drawn = spec.stack ? [...this.lines].reverse() : [...this.lines].sort((a, b) => Boolean(b.thin) - Boolean(a.thin)); // important lines last, over the others
    this.chips = this.lines.map((l) => this.chipOf(l));
    this.above = element('span', { class: 'aboves' }, ...this.aboveWords());
    this.values.append(...this.chips, this.above, ...this.heldWords());
    this.root.classList.add(spec.kind || 'lines');
  }

  // The legend entry of a line. Each of several lines can be hidden.
  chipOf(l) {
    const words = [element('i', {}), element('span', {}, l.label), ' ', element('b', {})];
    if (this.lines.length < 2) return element('span', { class: 'chip' }, ...words);
    return element('button', { class: 'chip', type: 'button', 'aria-pressed': 'true', title: 'show or hide it', onclick: () => this.toggle(l) }, ...words);
  }

  toggle(l) {
    l.hidden = !l.hidden;
    this.chips[l.number].setAttribute('aria-pressed', String(!l.hidden));
    this.pile();
    this.above.replaceChildren(...this.aboveWords());
    this.build();
  }

  shown(lines = this.lines) {
    return lines.filter((l) => !l.hidden);
  }

  // Computes the visible lines: stacked, or each by itself.
  pile() {
    const shown = this.shown();
    const lines = this.spec.stack ? stacked(shown.map((l) => l.alone)) : shown.map((l) => l.alone);
    shown.forEach((l, i) => { l.line = lines[i]; });
  }

  // The flag is of the first line.
  flags() {
    return this.lines[0].hidden ? [] : this.spec.flags || [];
  }

  // Limits too far above the lines to be drawn.
  aboveWords() {
    const refs = this.spec.refs || [];
    const top = refs.length ? Math.max(0, ...this.shown().map((l) => highest(l.line)), ...this.flags().map((f) => f.y)) : 0;
    return refs.filter((r) => r.value > top * REACH).map((r) => element('span', { class: 'chip above' }, r.label + ' ', element('b', {}, this.unit.text(r.value)), ', above the chart'));
  }

  // The legend of shaded stretches: "clocks throttled by heat, 6 s".
  heldWords() {
    const sums = new Map();
    for (const band of this.spec.held || []) sums.set(band.label, (sums.get(band.label) || 0) + band.sum);
    if (!sums.size) return [];
    return [element('span', { class: 'chip held' }, element('i', {}), 'clocks throttled by ' + [...sums].map(([label, s]) => `${label}, ${duration(s)}`).join('; '))];
  }

  // uPlot wants one time column: [x, low, high, mean, low, high, mean...], low and high where there is a band.
  data() {
    if (!this.shown().length) return [[this.view.min, this.view.max]];
    const tables = this.shown(this.drawn).map(({ line }) => line.band ? [line.x, line.low, line.high, line.mean] : [line.x, line.mean]);
    const same = tables.every((t) => t[0] === tables[0][0] || (t[0].length === tables[0][0].length && t[0].every((x, i) => x === tables[0][0][i])));
    if (same) return [tables[0][0], ...tables.flatMap((t) => t.slice(1))];
    return uPlot.join(tables);
  }

  dashOf(l) {
    return this.spec.stack ? [] : l.dash || dash(l.color ?? l.number);
  }

  // Areas have no dashes: those beyond the palette are grey.
  inkOf(l) {
    if (this.spec.stack && (l.label === 'others' || l.number >= PALETTES[theme].length)) return ink('mark');
    return color(l.color ?? l.number);
  }

  series() {
    const series = [{}];
    const bands = [];
    const lowest = this.shown()[0];
    for (const l of this.shown(this.drawn)) {
      const stroke = this.inkOf(l);
      const soft = { stroke: 'transparent', width: 0, points: { show: false }, paths: pathsOf(l.line) };
      if (l.line.band) {
        // A burst of one row is a pixel wide: its edge is drawn, because a band of that width is invisible.
        series.push(soft, { ...soft, stroke: fade(stroke, 0.6), width: 1 });
        bands.push({ series: [series.length - 1, series.length - 2], fill: fade(stroke, Math.min(0.22, 0.5 / this.lines.length)) });
      }
      const few = l.line.x.length === 1 || (!l.line.align && l.line.x.length < 15); // a step needs two
      series.push({
        stroke,
        paths: pathsOf(l.line),
        width: this.spec.stack || l.thin ? 1 : 1.75,
        dash: this.dashOf(l),
        points: { show: few, size: 5, fill: stroke, stroke },
        spanGaps: false,
      });
      if (!this.spec.stack) continue;
      if (l !== lowest) bands.push({ series: [series.length - 1, series.length], fill: fade(stroke, 0.35) }); // down to the next one
      else series[series.length - 1].fill = fade(stroke, 0.35);
    }
    return { series, bands };
  }

  range(low, high) {
    const { unit, spec } = this;
    let bottom = spec.loose ? low ?? 0 : Math.min(0, low ?? 0);
    let top = high ?? 1;
    for (const r of spec.refs || []) if (r.value <= top * REACH) top = Math.max(top, r.value);
    if (unit.top && top <= unit.top) return [0, unit.top];
    if (top === bottom) return bottom === 0 ? [0, unit.base === 1024 ? 1024 : 1] : [bottom - Math.abs(bottom) * 0.1, top + Math.abs(top) * 0.1];
    const room = (top - bottom) * (this.flags().length ? 0.24 : 0.08);
    bottom = spec.loose ? bottom - room : bottom;
    return [bottom, top + room];
  }

  make() {
    for (const l of this.lines) l.line = l.line || (l.alone = l.make());
    const options = this.options();
    const { series, bands } = this.series();
    options.scales.y = { range: (u, low, high) => this.range(low, high) };
    options.series = series;
    options.bands = bands;
    options.axes = [timeAxis(this.view, false), {
      stroke: ink('text'),
      grid: { stroke: ink('grid'), width: 1 },
      ticks: { show: false },
      font: '11px system-ui, sans-serif',
      size: gutter(this.width()),
      gap: 6,
      space: this.spec.height < 120 ? 20 : this.unit.base === 1024 ? 28 : 34, // powers of two leave no finer choice
      values: (u, splits) => splits.map((v) => this.unit.text(v)),
      ...(this.unit.base === 1024 ? { incrs: POWERS } : this.unit.whole ? { incrs: WHOLE } : {}),
    }];
    options.hooks.draw = [(u) => this.drawOver(u)];
    return new uPlot(options, this.data(), this.place);
  }

  drawOver(u) {
    const ratio = devicePixelRatio;
    const ctx = u.ctx;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = 'alphabetic';
    for (const r of this.spec.refs || []) this.drawReference(u, ctx, r, ratio);
    for (const f of this.flags()) this.drawFlag(u, ctx, f, ratio);
    this.drawSpecial(u, ctx, ratio);
    if (this.width() > WIDE) this.drawNames(u, ctx, ratio);
    ctx.restore();
  }

  drawReference(u, ctx, r, ratio) {
    const y = u.valToPos(r.value, 'y', true);
    const { left, top, width } = u.bbox;
    const inside = y >= top && y <= top + u.bbox.height;
    ctx.fillStyle = ctx.strokeStyle = ink('text');
    ctx.textAlign = 'left';
    if (!inside) return;
    ctx.setLineDash([8 * ratio, 4 * ratio]);
    ctx.lineWidth = ratio;
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.fillText(r.label + ' ' + this.unit.text(r.value), left + 6 * ratio, y < top + 16 * ratio ? y + 13 * ratio : y - 4 * ratio);
  }

  drawFlag(u, ctx, f, ratio) {
    if (f.x < this.view.min || f.x > this.view.max) return;
    const x = u.valToPos(f.x, 'x', true);
    const y = u.valToPos(f.y, 'y', true);
    const words = ctx.measureText(f.label).width;
    const right = u.bbox.left + u.bbox.width;
    const at = Math.min(Math.max(x - words / 2, u.bbox.left + 2), right - words - 4);
    const below = y < u.bbox.top + 20 * ratio;
    const base = below ? y + 20 * ratio : y - 9 * ratio;
    ctx.fillStyle = ink('back');
    ctx.globalAlpha = 0.8;
    ctx.fillRect(at - 3 * ratio, base - 11 * ratio, words + 6 * ratio, 15 * ratio);
    ctx.globalAlpha = 1;
    ctx.fillStyle = ink('alert');
    ctx.textAlign = 'left';
    ctx.fillText(f.label, at, base);
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x - 5 * ratio, y + (below ? 8 : -8) * ratio);
    ctx.lineTo(x + 5 * ratio, y + (below ? 8 : -8) * ratio);
    ctx.fill();
  }

  drawSpecial(u, ctx, ratio) {
    ctx.fillStyle = ink('alert');
    const middle = u.bbox.left + u.bbox.width / 2;
    for (const { line } of this.shown()) {
      for (const [t, text] of line.special.slice(0, 50)) {
        const x = u.valToPos(t, 'x', true);
        ctx.textAlign = x < middle ? 'left' : 'right';
        if (t >= this.view.min && t <= this.view.max)
          ctx.fillText(x < middle ? '\u25bc ' + text : text + ' \u25bc', x + (x < middle ? -5 : 5) * ratio, u.bbox.top + 12 * ratio);
      }
    }
  }

  // The name of each line at its end; names that would overlap are moved apart.
  drawNames(u, ctx, ratio) {
    const step = 13 * ratio;
    const right = u.bbox.left + u.bbox.width;
    const room = (LABELS - 12) * ratio;
    const names = this.shown().map((l) => {
      const { view } = this;
      const own = l.line.value || l.line.mean;
      let row = placesBefore(l.line, view.max + 1e-9) - 1;
      while (row >= 0 && own[row] === null) row--;
      if (row < 0 || l.line.x[row] < view.max - (view.max - view.min) * 0.1) return null;
      const value = l.line.mean[row] - (l.line.value ? l.line.value[row] / 2 : 0);
      return { text: l.label, ink: this.inkOf(l), y: u.valToPos(value, 'y', true) };
    }).filter(Boolean).sort((a, b) => a.y - b.y);
    if (names.length * step > u.bbox.height + step) return;
    names.forEach((n, i) => { n.y = Math.max(n.y, i ? names[i - 1].y + step : u.bbox.top + 4 * ratio); });
    for (let i = names.length - 1, floor = u.bbox.top + u.bbox.height; i >= 0; i--, floor -= step) names[i].y = Math.min(names[i].y, floor);
    ctx.textAlign = 'left';
    ctx.textBaseline = 'middle';
    for (const n of names) {
      ctx.fillStyle = n.ink;
      ctx.fillText(shortened(n.text, (text) => ctx.measureText(text).width <= room), right + 7 * ratio, n.y);
    }
  }

  valueAt(l, time) {
    const row = rowAt(l.line, time);
    if (row < 0) return DASH;
    const { line } = l;
    const value = line.value ? line.value[row] : line.mean[row];
    const near = line.align ? 0 : line.x.length < 2 ? Infinity : Math.max(2 * (this.view.max - this.view.min) / 300, 3 * (line.x[line.x.length - 1] - line.x[0]) / line.x.length);
    if (value === null || (!line.align && Math.abs(line.x[row] - time) > near)) {
      const special = line.special.find(([t]) => Math.abs(t - time) <= near / 4);
      return special ? special[1] : DASH;
    }
    const text = this.unit.text(value);
    if (!line.band || line.high[row] - line.low[row] < Math.abs(value) * 0.01) return text;
    return `${text} (${this.unit.text(line.low[row])}${DASH}${this.unit.text(line.high[row])})`;
  }

  // The values at the crosshair; without one, the maximum of the visible stretch.
  showValues() {
    const { view } = this;
    this.lines.forEach((l, i) => {
      const [swatch, value] = [this.chips[i].querySelector('i'), this.chips[i].querySelector('b')];
      swatch.style.borderTopColor = l.hidden ? 'transparent' : this.inkOf(l);
      swatch.style.borderTopStyle = this.dashOf(l).length ? 'dashed' : 'solid';
      if (view.cursor !== null) {
        value.textContent = this.valueAt(l, view.cursor);
        return;
      }
      const key = view.min + ' ' + view.max;
      if (l.seenFor !== key) [l.seenFor, l.seen] = [key, extremes(l.line, view.min, view.max)];
      if (l.seen === null) value.textContent = DASH;
      else value.textContent = this.spec.loose ? `${this.unit.text(l.seen[0])} to ${this.unit.text(l.seen[1])}` : 'max ' + this.unit.text(l.seen[1]);
    });
  }

  spoken() {
    return this.spec.title + ': ' + this.shown().map((l) => this.chips[l.number].textContent).join(', ');
  }
}
