// Which policies refuse, and which of them may only have said so.

import {ask, now} from './api.js';
import {$, el, foreign, setRows, setText, show} from './dom.js';
import {rfc3339, share, units} from './format.js';
import {tellPartial} from './poll.js';
import {spans, view} from './view.js';

const top = 20;
const panel = $('#policies');

export async function load(signal) {
  const span = spans[view.span];
  const usage = await ask('v1/usage', {by: 'policy', order: 'refused', top, policy: view.scope, from: rfc3339(now() - span.length)}, signal);
  tell(usage, span);
}

function tell(usage, span) {
  show($('table', panel), usage.usage.length > 0);
  show($('.none', panel), usage.usage.length === 0);
  setText($('.none', panel), `No policy refused anything in the ${span.words}.`);
  setRows($('tbody', panel), usage.usage, (group) => group.policy, (group) => el('tr', {},
    el('th', {scope: 'row'}, foreign(group.policy), ...(usage.shadow.includes(group.policy) ? [' ', el('span', {class: 'tag'}, 'in shadow: may have passed')] : [])),
    el('td', {class: 'number'}, units(group.refused)),
    el('td', {class: 'number'}, units(group.allowed)),
    shareCell(group)));
  tellPartial(panel, usage.partial);
  offer(usage.usage.map((group) => group.policy));
}

/** A cell with the share of refused units, also as a bar. */
export function shareCell({allowed, refused}) {
  const bar = el('span', {class: 'bar', 'aria-hidden': 'true'}, el('span'));
  bar.firstChild.style.inlineSize = `${100 * refused / Math.max(allowed + refused, 1)}%`;
  return el('td', {class: 'number share'}, bar, el('span', {class: 'percent'}, share(refused, allowed + refused)));
}

/** Lets policies be chosen that were seen. */
export function offer(names) {
  const choice = $('#scope-policy'), list = $('#policy-names');
  for (const name of names) {
    if (![...choice.options].some((option) => option.value === name)) choice.append(el('option', {value: name}, name));
    if (![...list.options].some((option) => option.value === name)) list.append(el('option', {value: name}));
  }
}
