// SPDX-License-Identifier: MIT
// The page: charts that are made when they come near the window, dark and light themes, paper.

// Calls work with a function that says whether its time is over. Safari has no requestIdleCallback.
function whenIdle(work) {
  const turn = (deadline) => work(() => deadline.timeRemaining() < 4);
  if (typeof requestIdleCallback === 'function') return requestIdleCallback(turn, { timeout: 500 });
  return setTimeout(() => work(() => true), 50);
}

class Page {
  constructor(data) {
    const run = data.runs[0];
    const single = data.runs.length === 1;
    this.data = data;
    this.view = new View(Math.max(...data.runs.map((r) => r.end)));
    this.panels = [];
    this.count = 0;
    this.bands = single ? phaseBars(run).filter((b) => b.lane === 0).slice(0, MANY) : [];
    const near = single ? run.events : [];
    this.gaps = near.filter((e) => e.kind === 'gap').map((e) => ({ from: (e.t_ns - (e.value_ns || 0)) / 1e9, to: e.t_ns / 1e9 }));
    this.moments = near.filter((e) => SHOWN_EVENTS.includes(e.kind) && e.kind !== 'cleared').slice(0, MANY).map((e) => ({ t: e.t_ns / 1e9, alert: e.kind !== 'mark' }));
    this.seen = new IntersectionObserver((found) => this.appeared(found), { rootMargin: '600px' });
    this.addView(this.view);
  }

  addView(view) {
    view.watch((what) => this.follow(what));
    return view;
  }

  drop(panels) {
    for (const panel of panels) {
      this.seen.unobserve(panel.root);
      panel.drop();
      panel.root.remove();
    }
    this.panels = this.panels.filter((panel) => !panels.includes(panel));
  }

  // Makes all charts anew, after runs were shifted against each other.
  again() {
    this.drop([...this.panels]);
    for (const group of document.querySelectorAll('#charts > .group')) group.remove();
    this.view.end = Math.max(...this.data.runs.map((run) => run.end + run.shift));
    this.view.all();
    sections(this, this.data);
  }

  // Charts are made when they come near the window, the others one by one while the page is idle.
  add(place, panels) {
    for (const panel of panels.flat().filter(Boolean)) {
      place.append(panel.root);
      if (!(panel instanceof Panel)) continue;
      this.panels.push(panel);
      panel.root.panel = panel;
      this.seen.observe(panel.root);
    }
    this.idle();
  }

  idle() {
    if (this.waiting || !this.panels.some((panel) => panel.isBehind())) return;
    this.waiting = whenIdle((isOver) => {
      this.waiting = null;
      for (const panel of this.panels) {
        if (!panel.isBehind()) continue;
        panel.catchUp();
        if (isOver()) break;
      }
      this.idle();
    });
  }

  appeared(found) {
    for (const { isIntersecting, target } of found) {
      target.panel.near = isIntersecting;
      if (isIntersecting) target.panel.catchUp();
    }
    requestAnimationFrame(ready);
  }

  follow(what) {
    cancelAnimationFrame(this.frame);
    this.ranged = this.ranged || what === 'range';
    this.frame = requestAnimationFrame(() => {
      const range = this.ranged;
      this.ranged = false;
      for (const panel of this.panels) if (panel.near) panel.follow(range ? 'range' : 'cursor');
      this.showRange();
      this.idle();
    });
  }

  showRange() {
    const { view } = this;
    const whole = view.min === 0 && view.max === view.end;
    const range = whole ? `all of ${duration(view.end)}` : `${stretchWords(view.min, view.max)} of ${duration(view.end)}`;
    $('when').textContent = view.cursor === null ? range : `at ${clock(view.cursor, (view.max - view.min) / 500)}  \u00b7  ${range}`;
    $('reset').disabled = whole;
  }

  redraw() {
    for (const panel of this.panels) if (panel.plot) panel.build();
  }

  everything() {
    for (const panel of this.panels) panel.catchUp();
  }
}

// Charts that are made when they are unfolded.
class Folded {
  constructor(page, title, make) {
    const inside = element('div', {});
    this.root = element('details', { class: 'folded', ontoggle: () => {
      if (!make) return;
      page.add(inside, make());
      make = null;
    } }, element('summary', {}, title), inside);
  }
}

function sections(page, data) {
  const add = (title, panels) => {
    const found = panels.flat().filter(Boolean);
    if (!found.length) return;
    const root = element('section', { class: 'group' }, title ? element('h2', {}, title) : null);
    $('charts').append(root);
    page.add(root, found);
  };
  const first = timeline(page, data);
  if (first) page.add($('charts'), [first]);
  add('Memory', memory(page, data));
  add(data.runs[0].gpus.length === 1 ? 'GPU' : 'GPUs', gpus(page, data));
  if (data.runs.some((run) => logged(run).length)) {
    const section = new Logged(page, data);
    add('User series', [section]);
    section.start();
  }
  if (data.runs.some((run) => run.tables.some((t) => t.entity === 'series' && ALLOCATOR.test(t.columns[0].name))))
    add('', [new Folded(page, "Device memory by framework allocator", () => series(page, data, (name) => ALLOCATOR.test(name)))]);
  add('CPUs', processors(page, data));
  add('Storage, network, power', traffic(page, data));
  for (const place of document.querySelectorAll('.gantt')) {
    if (data.runs.length === 1) page.add(place, [gantt(page, data.runs[0])]);
  }
}

// ---- dark and light ----

function isDark() {
  const chosen = document.documentElement.dataset.look;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function setLook(page, chosen) {
  if (chosen) document.documentElement.dataset.look = chosen;
  theme = isDark() ? 'dark' : 'light';
  $('theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
  page.redraw();
}

const PAPER = 690; // pixels: width of charts on paper (A4 or letter, between margins)

function looks(page) {
  theme = isDark() ? 'dark' : 'light';
  $('theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
  $('theme').onclick = () => setLook(page, theme === 'dark' ? 'light' : 'dark');
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => setLook(page));
  let before;
  addEventListener('beforeprint', () => {
    before = document.documentElement.dataset.look || '';
    page.paper = PAPER;
    setLook(page, 'light');
    page.everything();
  });
  addEventListener('afterprint', () => {
    page.paper = null;
    if (before) setLook(page, before);
    else {
      delete document.documentElement.dataset.look;
      setLook(page);
    }
  });
}

// Everything visible is drawn: records the time, for measurements.
function ready() {
  const { dataset } = document.documentElement;
  if (!dataset.ready) dataset.ready = String(Math.round(performance.now()));
}

async function begin() {
  const data = await readData($('data').textContent);
  data.runs.forEach((run, r) => { run.label = `${r + 1}. ${run.name || (run.number ? `run ${run.number}` : run.command || 'a run')}`; });
  const page = new Page(data);
  looks(page);
  $('bar').hidden = false;
  alignment(page);
  sections(page, data);
  $('pictures').hidden = true;
  keyboard(page, leads(page));
  downloads(data);
  page.showRange();
  const stretch = /^#t=([\d.]+)-([\d.]+)$/.exec(location.hash); // seconds
  if (stretch) page.view.showAround(Number(stretch[1]), Number(stretch[2]));
  let width = innerWidth;
  new ResizeObserver(() => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const panel of page.panels) panel.resize();
  }).observe(document.documentElement);
  if (!page.panels.length) ready();
}

begin().catch((error) => {
  $('problem').textContent = 'The charts cannot be shown: ' + error.message;
  $('problem').hidden = false;
});
