// What a key has used of its limit, call by call.

import {ask, now} from './api.js';
import {Chart, lines} from './chart.js';
import {$, el, foreign, setChildren, setRows, setText, show} from './dom.js';
import {clock, rfc3339, slides, time, units} from './format.js';

const newest = 300; // calls that are drawn
let before = {question: '', used: 0}; // see usedBefore
const panel = $('#history');
const chart = new Chart($('figure', panel), [lines.area('used', '--allowed'), lines.dashed('limit', '--limit'), lines.marks('refused', '--refused')],
  ([t, used, limit, refused]) => `${clock(t * 1000)}: ${units(used)} of ${limit === null ? 'unlimited' : units(limit)}${refused === null ? '' : ', refused'}`);

/** Draws the newest calls of a key under a policy. */
export async function load({key, policy}, signal) {
  const {calls} = await ask('v1/calls', {key, policy, kind: 'hit,reset', limit: newest}, signal);
  weigh(calls, await usedBefore(calls, signal));
  show(panel, true);
  setChildren($('#history-title'), 'History of ', foreign(key), ' under ', foreign(policy));
  const summary = words(calls);
  setText($('.summary', panel), summary);
  show($('figure', panel), calls.length > 0);
  if (calls.length > 0) draw(calls.toReversed(), summary);
  setRows($('tbody', panel), calls, (call) => call.id, (call) => el('tr', {},
    el('th', {scope: 'row'}, time(call.called_at)), el('td', {}, call.kind === 'reset' ? 'reset' : call.allowed ? 'allowed' : 'refused'),
    el('td', {class: 'number'}, units(call.used)), el('td', {class: 'number'}, units(call.limit ?? '–'))));
}

/** What was used in the sliding window before that of the oldest call. */
async function usedBefore(calls, signal) {
  const oldest = calls.at(-1);
  if (!oldest || !slides(oldest)) return 0;
  const start = Date.parse(oldest.window_start), length = lengthOf(oldest.schedule) * 1000;
  const question = `${oldest.key} ${oldest.policy} ${oldest.schedule} ${start}`;
  if (before.question !== question) {
    const {calls: [last]} = await ask('v1/calls', {key: oldest.key, policy: oldest.policy, kind: 'hit', from: rfc3339(start - length), to: rfc3339(start), limit: 1}, signal);
    before = {question, used: last && Date.parse(last.window_start) === start - length ? last.count - last.refused : 0};
  }
  return before.used;
}

/** Gives each call what was used when it was decided: for a sliding window with the part of the one before, rounded up. */
function weigh(calls, previous) {
  let window = null;
  for (const call of calls.toReversed()) {
    if (call.kind === 'reset') {
      Object.assign(call, {used: 0, carried: 0});
      [window, previous] = [null, 0];
      continue;
    }
    const start = Date.parse(call.window_start), length = (lengthOf(call.schedule) ?? 0) * 1000;
    if (window && start !== window.start) previous = start === window.start + length ? window.used : 0;
    window = {start, used: call.count - call.refused};
    call.carried = slides(call) ? Math.ceil(previous * (start + length - Date.parse(call.called_at)) / length) : 0;
    call.used = window.used + call.carried;
  }
}

/** Shows nothing. */
export function forget() {
  show(panel, false);
  for (const place of ['#history-title', '#history tbody', '#history .summary']) $(place).replaceChildren();
}

function words(calls) {
  const hits = calls.filter((call) => call.kind === 'hit');
  if (hits.length === 0) return 'The log has no call of this key under this policy.';
  const refused = hits.filter((call) => !call.allowed).reduce((n, call) => n + call.hits, 0);
  const all = hits.reduce((n, call) => n + call.hits, 0);
  const last = hits[0];
  const carried = last.carried > 0 ? `, ${units(last.carried)} of them carried over from the window before` : '';
  return `Of the newest ${units(all)} requests, since ${clock(Date.parse(hits.at(-1).called_at))}, ${units(refused)} were refused. After the last, at ${clock(Date.parse(last.called_at))}, ${units(last.used)} of ${units(last.limit)} units were used in a window of ${last.schedule}${carried}.`;
}

/**
 * Draws calls, the oldest first. Where another window begins what is used falls to 0, or
 * to what a sliding one carries over, which slides out until that ends too.
 */
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
  /** Draws the end of the window, if it is over by then. */
  const leave = (t) => {
    if (!window || window.end > t) return;
    point(window.end, window.sliding ? window.used : 0, false);
    if (window.sliding && window.end + window.length <= t) point(window.end + window.length, 0, false);
  };
  for (const call of calls) {
    const t = seconds(call.called_at);
    if (call.kind === 'reset') {
      leave(t);
      point(t, 0, false);
      window = null;
      continue;
    }
    const start = seconds(call.window_start);
    if (start !== window?.start) {
      leave(start);
      if (window && window.end === Infinity) point(start, 0, false); // a calendar's
      const length = lengthOf(call.schedule) ?? Infinity;
      window = {start, length, end: start + length, sliding: slides(call)};
    }
    window.used = call.count - call.refused;
    limit = typeof call.limit === 'number' ? call.limit : null;
    point(t, call.used, !call.allowed);
  }
  const to = now() / 1000;
  leave(to);
  if (window && latest <= to && window.end < Infinity) point(to, stillUsed(window, data[1].at(-1), to), false);
  const from = data[0][0], end = Math.max(latest, from + 1);
  // Marks of refused calls stand above both lines, where they hide neither.
  const above = 1.15 * Math.max(1, ...data[1], ...data[2]);
  data[3] = data[3].map((mark) => mark === null ? null : above);
  chart.draw(data, {from: from - (end - from) * 0.02, to: end + (end - from) * 0.02}, summary);
}

/** What is used at a time, by the last window and what was drawn last. */
function stillUsed(window, last, t) {
  if (!window.sliding || t < window.end) return last;
  return Math.max(0, Math.ceil(window.used * (window.end + window.length - t) / window.length));
}

const seconds = (text) => Date.parse(text) / 1000;

/** Seconds of a fixed or sliding window, null of a calendar's. */
function lengthOf(schedule) {
  const said = /^(?:fixed|sliding) ((?:\d+[dhms])+)$/.exec(schedule ?? '');
  if (!said) return null;
  const unit = {d: 86400, h: 3600, m: 60, s: 1};
  return [...said[1].matchAll(/(\d+)([dhms])/g)].reduce((n, [, count, name]) => n + count * unit[name], 0);
}
