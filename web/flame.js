// SPDX-License-Identifier: MIT
// Zooms in the flame graphs of "Where the RAM came from" (src/sink/where/where_svg.c): a click on a frame makes it as wide as the picture.

const FLAME_WIDTH = 1200;
const FLAME_LETTER = 7;

function flameZoom(frames, from, to) {
  const scale = FLAME_WIDTH / (to - from);
  for (const frame of frames) {
    const start = Number(frame.dataset.x);
    const left = (Math.max(start, from) - from) * scale;
    const width = (Math.min(start + Number(frame.dataset.w), to) - from) * scale - left;
    frame.style.display = width < 0.2 ? 'none' : '';
    if (width < 0.2) continue;
    const rect = frame.querySelector('rect');
    const text = frame.querySelector('text');
    const letters = Math.floor(width / FLAME_LETTER) - 1;
    const name = frame.dataset.n;
    rect.setAttribute('x', left);
    rect.setAttribute('width', width);
    text.setAttribute('x', left + 3);
    text.textContent = letters < 3 ? '' : name.length <= letters ? name : `${name.slice(0, letters - 1)}\u2026`;
  }
}

for (const svg of document.querySelectorAll('svg.where')) {
  const frames = svg.querySelectorAll('g[data-x]');
  for (const frame of frames) {
    frame.addEventListener('click', () => flameZoom(frames, Number(frame.dataset.x), Number(frame.dataset.x) + Number(frame.dataset.w)));
  }
}
