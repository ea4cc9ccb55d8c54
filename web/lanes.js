// SPDX-License-Identifier: MIT
// Bars on the time axis: phases and events, lifetimes of processes.

const LANE = 20;

// spec: lanes, the number of rows; bars of {from, to, lane, label, title, color, alert, open, at, hollow}: at is a bar without a length; hollow marks the end of an alert.
class Lanes extends Panel {
  constructor(page, spec) {
    super(page, { height: spec.lanes * LANE + (spec.quiet ? 8 : 34), bare: false, ...spec });
    this.values.textContent = spec.hint || '';
    this.place.addEventListener('click', (e) => this.clicked(e));
    this.place.addEventListener('mousemove', (e) => this.hovered(e));
    this.place.addEventListener('mouseleave', () => { this.values.textContent = this.spec.hint || ''; });
    this.root.classList.add('lanes');
  }

  make() {
    const options = this.options();
    options.scales.y = { range: () => [this.spec.lanes, 0] };
    options.series = [{}, { stroke: 'transparent', points: { show: false } }];
    options.axes = [timeAxis(this.view, this.spec.quiet), {
      stroke: ink('text'),
      grid: { show: false },
      ticks: { show: false },
      font: '11px system-ui, sans-serif',
      size: gutter(this.width()),
      gap: 6,
      splits: () => (this.spec.names || []).map((_, i) => i + 0.5),
      values: () => this.spec.names || [],
    }];
    options.hooks.draw = [(u) => this.draw(u)];
    return new uPlot(options, [[0, this.view.end], [null, null]], this.place);
  }

  draw(u) {
    const ratio = devicePixelRatio;
    onPlot(u, (ctx, x, box) => {
      const lane = box.height / this.spec.lanes;
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = 'middle';
      const ends = box.left + box.width;
      for (const bar of this.spec.bars) this.drawBar(ctx, bar, x(bar.from), x(bar.to), box.top + bar.lane * lane, lane, ratio, box);
      ctx.fillStyle = ink('text');
      ctx.textAlign = 'left';
      let taken = box.left; // where the previous bar and its label end in the lane
      this.spec.bars.forEach((bar, i) => {
        const next = this.spec.bars[i + 1];
        const before = this.spec.bars[i - 1];
        const isAmong = bar.at && before && before.lane === bar.lane;
        taken = isAmong ? Math.max(taken, x(before.from) + 8 * ratio) : box.left;
        const last = bar.at && next && next.lane === bar.lane ? Math.min(x(next.from) - 8 * ratio, ends) : ends;
        taken = Math.max(taken, this.drawLabel(ctx, bar, x(bar.from), x(bar.to), box.top + (bar.lane + 0.5) * lane, ratio, taken, last));
      });
    });
  }

  drawBar(ctx, bar, from, to, top, lane, ratio, box) {
    const ends = box.left + box.width;
    if (to < box.left - 1 || from > ends + 1) return;
    const hue = bar.alert ? ink('alert') : bar.color === undefined ? ink('mark') : color(bar.color);
    const pad = 2 * ratio;
    ctx.fillStyle = hue;
    if (bar.at) {
      ctx.beginPath();
      ctx.moveTo(from, top + lane - pad);
      ctx.lineTo(from - 4 * ratio, top + pad + 2 * ratio);
      ctx.lineTo(from + 4 * ratio, top + pad + 2 * ratio);
      ctx.closePath();
      ctx.strokeStyle = hue;
      ctx.lineWidth = ratio;
      ctx.setLineDash([]);
      if (bar.hollow) ctx.stroke();
      else ctx.fill();
    } else {
      ctx.globalAlpha = bar.open ? 0.45 : 0.3;
      ctx.fillRect(from, top + pad, Math.max(ratio, to - from), lane - 2 * pad);
      ctx.globalAlpha = 1;
      ctx.fillRect(from, top + pad, 2 * ratio, lane - 2 * pad);
    }
  }

  // Inside the bar where it fits, else next to it where there is room, else cut off. Returns the end of the label.
  drawLabel(ctx, bar, from, to, y, ratio, left, right) {
    const words = ctx.measureText(bar.label).width;
    const start = Math.max(from, left) + (bar.at ? 7 : 5) * ratio;
    const inside = Math.min(bar.at ? right : to, right) - start;
    const put = (text, at) => {
      ctx.fillText(text, at, y);
      return at + ctx.measureText(text).width + 4 * ratio;
    };
    if (to < left || from > right) return left;
    if (words <= inside) return put(bar.label, start);
    if (bar.free && to + words + 5 * ratio < right) return put(bar.label, to + 4 * ratio);
    if ((bar.free || bar.at) && from - words - 9 * ratio > left) return put(bar.label, from - words - 7 * ratio);
    if (inside <= 36 * ratio) return left;
    let text = bar.label;
    while (text.length > 2 && ctx.measureText(text + '\u2026').width > inside) text = text.slice(0, -1);
    return put(text + '\u2026', start);
  }

  barAt(e) {
    if (!this.plot) return null;
    const rect = this.plot.over.getBoundingClientRect();
    const time = this.plot.posToVal(e.clientX - rect.left, 'x');
    const lane = Math.floor((e.clientY - rect.top) / rect.height * this.spec.lanes);
    const slack = (this.view.max - this.view.min) * 6 / rect.width;
    const found = this.spec.bars.filter((b) => b.lane === lane && b.from - slack <= time && time <= b.to + slack);
    return found.sort((a, b) => Math.abs(a.from - time) - Math.abs(b.from - time)).find((b) => b.at) || found[0] || null;
  }

  hovered(e) {
    const bar = this.barAt(e);
    this.values.textContent = bar ? bar.title : this.spec.hint || '';
  }

  clicked(e) {
    const bar = this.barAt(e);
    if (bar && !bar.at && Math.abs(this.plot.select.width) < 4) this.view.showAround(bar.from, bar.to);
  }
}
