// How much is allowed and refused: now, and over the span that is looked at.

import {ask, now} from './api.js';
import {Chart, lines} from './chart.js';
import {$, el, setRows, setText, show} from './dom.js';
import {clock, rate, rfc3339, time, units} from './format.js';
import {tellPartial, tellShadows} from './notes.js';
import {spans, view} from './view.js';

const recent = 10; // seconds that "now" is the mean of
const lengths = {minute: 60e3, hour: 3600e3};
const wholeEvery = 300e3; // milliseconds until all is asked for again, and not only what is new

const panel = $('#throughput');
const chart = new Chart($('figure', panel), [lines.area('allowed', '--allowed'), lines.dashed('refused', '--refused')],
  ([t, allowed, refused]) => `${clock(t * 1000, {seconds: false})}: ${rate(allowed)}/s allowed, ${rate(refused)}/s refused`);

let known = null; // what the log was last found to have, see load

/** Fills the panel. */
export async function load(signal) {
  const span = spans[view.span], length = lengths[span.by];
  const to = now(), from = Math.floor((to - span.length) / length) * length;
  const question = `${view.span} ${view.scope}`;
  if (known?.question !== question || to - known.at > wholeEvery) known = {question, at: to, groups: new Map(), asked: 0, partial: false, shadows: new Set()};
  const answers = known;
  const [momentary, added] = await Promise.all([
    ask('v1/usage', {by: 'policy', policy: view.scope, from: rfc3339(to - recent * 1000)}, signal),
    ask('v1/usage', {by: span.by, policy: view.scope, from: rfc3339(Math.max(from, answers.asked - length))}, signal),
  ]);
  // What a server logs late it logs within the group before: that one is asked for again.
  answers.asked = Math.floor(Date.parse(added.to) / length) * length;
  answers.partial ||= added.partial;
  for (const policy of added.shadow) answers.shadows.add(policy);
  for (const group of added.usage) answers.groups.set(Date.parse(group.start), group);
  for (const start of answers.groups.keys()) if (start < from) answers.groups.delete(start);
  tell(momentary, answers, {from, to: Date.parse(added.to), length, words: span.words});
  show($('#empty'), answers.groups.size === 0 && await isEmpty(signal));
}

function tell(momentary, answers, span) {
  const groups = [...answers.groups.entries()].sort(([a], [b]) => a - b);
  const sum = (member) => groups.reduce((n, [, group]) => n + group[member], 0);
  const allowed = sum('allowed'), refused = sum('refused');
  setText($('#allowed-now'), `${rate(momentary.allowed / recent)}/s`);
  setText($('#refused-now'), `${rate(momentary.refused / recent)}/s`);
  setText($('#allowed-sum'), units(allowed));
  setText($('#refused-sum'), units(refused));
  for (const place of panel.querySelectorAll('.span')) setText(place, span.words);
  tellShadows(panel, [...answers.shadows].sort(), refused);
  tellPartial(panel, answers.partial);
  const summary = `Units in the ${span.words}: ${units(allowed)} allowed, ${units(refused)} refused.${busiest(groups)}`;
  setText($('.summary', panel), summary);
  draw(answers.groups, span, summary);
  setRows($('tbody', panel), groups.toReversed(), ([start]) => start, ([, group]) => el('tr', {},
    el('th', {scope: 'row'}, time(group.start, {seconds: false})),
    el('td', {class: 'number'}, units(group.allowed)), el('td', {class: 'number'}, units(group.refused))));
}

function busiest(groups) {
  if (groups.length === 0) return '';
  const [start, most] = groups.reduce((a, b) => b[1].refused > a[1].refused ? b : a);
  return most.refused > 0 ? ` Most were refused at ${clock(start, {seconds: false})}: ${units(most.refused)}.` : '';
}

/** Draws units a second: a group that is not over yet by what there is of it. */
function draw(groups, {from, to, length}, summary) {
  const times = [], allowed = [], refused = [];
  for (let start = from; start < to; start += length) {
    const seconds = (Math.min(start + length, to) - start) / 1000;
    if (seconds < 5 && times.length > 0) break; // too short to be told from
    const group = groups.get(start);
    times.push(start / 1000);
    allowed.push((group?.allowed ?? 0) / seconds);
    refused.push((group?.refused ?? 0) / seconds);
  }
  times.push(to / 1000); // where the last step ends
  allowed.push(allowed.at(-1));
  refused.push(refused.at(-1));
  chart.draw([times, allowed, refused], {from: from / 1000, to: to / 1000}, summary);
}

/** Whether the log has no hit at all. */
async function isEmpty(signal) {
  const {calls} = await ask('v1/calls', {kind: 'hit', limit: 1}, signal);
  return calls.length === 0;
}
