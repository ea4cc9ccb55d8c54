// SPDX-License-Identifier: MIT
// Several runs in one chart: aligned at their starts, or at the first occurrence of a common mark or phase.

const MOMENTS_SHOWN = 8;

// Marks and phases of all runs: {name, at: the first time of each run}.
function commonMoments(data) {
  const firsts = data.runs.map((run) => {
    const moments = [...run.phases.map((p) => [p.begin_ns, p.name]), ...run.events.filter((e) => e.kind === 'mark').map((e) => [e.t_ns, e.text])];
    const first = new Map();
    for (const [ns, name] of moments.sort((a, b) => a[0] - b[0])) if (!first.has(name)) first.set(name, ns / 1e9);
    return first;
  });
  const common = [...firsts[0].keys()].filter((name) => firsts.every((first) => first.has(name)));
  return common.slice(0, MOMENTS_SHOWN).map((name) => ({ name, at: firsts.map((first) => first.get(name)) }));
}

// Runs are shifted to the latest of their moments, so that no time is before the axis.
function alignment(page) {
  const { runs } = page.data;
  const moments = runs.length > 1 ? [{ name: 'start', at: runs.map(() => 0) }, ...commonMoments(page.data)] : [];
  if (moments.length < 2) return;
  const buttons = moments.map((moment) => element('button', { type: 'button', 'aria-pressed': 'false', onclick: () => choose(moment) }, moment.name));
  const press = (moment) => buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(moments[i] === moment)));
  const choose = (moment) => {
    press(moment);
    runs.forEach((run, r) => { run.shift = Math.max(...moment.at) - moment.at[r]; });
    page.moments = moment === moments[0] ? [] : [{ t: Math.max(...moment.at), alert: false }];
    page.again();
  };
  press(moments[0]);
  $('charts').append(element('p', { class: 'switch', role: 'group', 'aria-label': 'Align runs at' }, 'runs aligned at ', ...buttons));
}
