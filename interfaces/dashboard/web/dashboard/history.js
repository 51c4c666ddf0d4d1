// What a key has used of its limit, call by call.

import {ask, now} from './api.js';
import {Chart, lines} from './chart.js';
import {$, el, foreign, setChildren, setRows, setText, show} from './dom.js';
import {clock, time, units} from './format.js';

const newest = 300; // calls that are drawn
const panel = $('#history');
const chart = new Chart($('figure', panel), [lines.area('used', '--allowed'), lines.dashed('limit', '--limit'), lines.marks('refused', '--refused')],
  ([t, used, limit, refused]) => `${clock(t * 1000)}: ${units(used)} of ${limit === null ? 'unlimited' : units(limit)}${refused === null ? '' : ', refused'}`);

/** Draws the newest calls of a key under a policy. */
export async function load({key, policy}, signal) {
  const {calls} = await ask('v1/calls', {key, policy, kind: 'hit,reset', limit: newest}, signal);
  show(panel, true);
  setChildren($('#history-title'), 'History of ', foreign(key), ' under ', foreign(policy));
  const summary = words(calls);
  setText($('.summary', panel), summary);
  show($('figure', panel), calls.length > 0);
  if (calls.length > 0) draw(calls.toReversed(), summary);
  setRows($('tbody', panel), calls, (call) => call.id, (call) => el('tr', {},
    el('th', {scope: 'row'}, time(call.called_at)), el('td', {}, call.kind === 'reset' ? 'reset' : call.allowed ? 'allowed' : 'refused'),
    el('td', {class: 'number'}, units(used(call))), el('td', {class: 'number'}, units(call.limit ?? '–'))));
}

/** Shows nothing. */
export function forget() {
  show(panel, false);
  for (const place of ['#history-title', '#history tbody', '#history .summary']) $(place).replaceChildren();
}

const used = (call) => call.kind === 'reset' ? 0 : call.count - call.refused;

function words(calls) {
  const hits = calls.filter((call) => call.kind === 'hit');
  if (hits.length === 0) return 'The log has no call of this key under this policy.';
  const refused = hits.filter((call) => !call.allowed).reduce((n, call) => n + call.hits, 0);
  const all = hits.reduce((n, call) => n + call.hits, 0);
  const last = hits[0];
  const sliding = last.schedule?.startsWith('sliding') ? ' A sliding window also counts a part of the one before, which is not drawn.' : '';
  return `Of the newest ${units(all)} requests, since ${clock(Date.parse(hits.at(-1).called_at))}, ${units(refused)} were refused. After the last, at ${clock(Date.parse(last.called_at))}, ${units(used(last))} of ${units(last.limit)} units were used in a window of ${last.schedule}.${sliding}`;
}

/** Draws calls, the oldest first: what is used falls to 0 where another window begins. */
function draw(calls, summary) {
  const data = [[], [], [], []];
  let window = null, latest = -Infinity, limit = null;
  const point = (t, value, refused) => {
    latest = Math.max(latest, t); // times of requests that came together may be logged out of order
    data[0].push(latest);
    data[1].push(value);
    data[2].push(limit);
    data[3].push(refused ? 0 : null); // the place is known below
  };
  for (const call of calls) {
    if (call.kind === 'reset') { point(seconds(call.called_at), 0, false); continue; }
    const start = seconds(call.window_start);
    if (window !== null && start !== window.start) {
      if (window.end < start) point(window.end, 0, false);
      point(start, 0, false);
    }
    window = {start, end: start + (lengthOf(call.schedule) ?? Infinity)};
    limit = typeof call.limit === 'number' ? call.limit : null;
    point(seconds(call.called_at), used(call), !call.allowed);
  }
  const to = now() / 1000;
  if (window && window.end < to) point(window.end, 0, false);
  if (window && (window.end < Infinity || latest > to)) point(Math.max(to, latest), data[1].at(-1), false);
  const from = data[0][0], end = Math.max(latest, from + 1);
  // Marks of refused calls stand above both lines, where they hide neither.
  const above = 1.15 * Math.max(1, ...data[1], ...data[2]);
  data[3] = data[3].map((mark) => mark === null ? null : above);
  chart.draw(data, {from: from - (end - from) * 0.02, to: end + (end - from) * 0.02}, summary);
}

const seconds = (text) => Date.parse(text) / 1000;

/** Seconds of a fixed or sliding window, null of a calendar's. */
function lengthOf(schedule) {
  const said = /^(?:fixed|sliding) ((?:\d+[dhms])+)$/.exec(schedule ?? '');
  if (!said) return null;
  const unit = {d: 86400, h: 3600, m: 60, s: 1};
  return [...said[1].matchAll(/(\d+)([dhms])/g)].reduce((n, [, count, name]) => n + count * unit[name], 0);
}
