// SPDX-License-Identifier: MIT
// A click on a finding, a phase or a process shows its stretch of time; keyboard commands.

function leads(page) {
  const shift = (e) => page.data.runs[e.dataset.run].shift || 0;
  const stretch = (e) => [Number(e.dataset.from) / 1e9 + shift(e), Number(e.dataset.to) / 1e9 + shift(e)];
  const cards = [...document.querySelectorAll('.card[data-from]')];
  const go = (card) => {
    cards.forEach((c) => c.classList.toggle('chosen', c === card));
    page.view.showAround(...stretch(card));
  };
  for (const card of cards) {
    card.classList.add('leads');
    const [from, to] = stretch(card);
    card.append(element('button', { type: 'button', class: 'show', onclick: () => { go(card); $('charts').scrollIntoView(); } }, from <= 0 && to >= page.view.end * 0.99 ? 'Show all of the run' : `Show ${stretchWords(from, to)}`));
  }
  for (const row of document.querySelectorAll('tr[data-from]')) {
    row.classList.add('leads');
    row.tabIndex = 0;
    row.addEventListener('click', () => page.view.showAround(...stretch(row)));
    row.addEventListener('keydown', (e) => e.key === 'Enter' && page.view.showAround(...stretch(row)));
  }
  let at = -1;
  return (by) => {
    if (!cards.length) return;
    at = (at + by + cards.length) % cards.length;
    cards[at].focus({ preventScroll: true });
    cards[at].scrollIntoView({ block: 'nearest' });
    go(cards[at]);
    $('spoken').textContent = cards[at].textContent;
  };
}

function keyboard(page, nextFinding) {
  const { view } = page;
  const speak = () => {
    const shown = page.panels.filter((p) => p.near && p.spoken).slice(0, 3);
    $('spoken').textContent = view.cursor === null ? '' : `at ${duration(view.cursor)}. ` + shown.map((p) => p.spoken()).join('. ');
  };
  const move = (share) => () => {
    view.step(share);
    requestAnimationFrame(() => requestAnimationFrame(speak));
  };
  const keys = [
    ['ArrowLeft', '\u2190 \u2192', 'move the crosshair', move(-0.01)],
    ['ArrowRight', null, null, move(0.01)],
    ['Shift+ArrowLeft', 'Shift \u2190 \u2192', 'earlier, later', () => view.pan(-0.25)],
    ['Shift+ArrowRight', null, null, () => view.pan(0.25)],
    ['+', '+ \u2212', 'zoom in, out, around the crosshair', () => view.zoom(0.5)],
    ['=', null, null, () => view.zoom(0.5)],
    ['-', null, null, () => view.zoom(2)],
    ['0', '0', 'all of the run', () => view.all()],
    ['n', 'n  N', 'next, previous finding', () => nextFinding(1)],
    ['N', null, null, () => nextFinding(-1)],
    ['Escape', 'Esc', 'no crosshair', () => view.point(null)],
    ['t', 't', 'dark or light', () => $('theme').click()],
    ['?', '?', 'this list', () => $('keys').showModal()],
  ];
  for (const [, shown, words] of keys.filter((k) => k[1])) $('keys').querySelector('.keys').append(element('dt', {}, element('kbd', {}, shown)), element('dd', {}, words));
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, textarea, select, dialog')) return;
    const name = e.shiftKey && e.key.startsWith('Arrow') ? 'Shift+' + e.key : e.key;
    const found = keys.find(([key]) => key === name);
    if (!found) return;
    e.preventDefault();
    found[3]();
  });
  $('zoom-in').onclick = () => view.zoom(0.5);
  $('zoom-out').onclick = () => view.zoom(2);
  $('reset').onclick = () => view.all();
  $('help').onclick = () => $('keys').showModal();
}
