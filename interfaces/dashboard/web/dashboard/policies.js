// Which policies refuse, and which of them may only have said so.

import {ask, now} from './api.js';
import {$, el, foreign, setRows, setText, show} from './dom.js';
import {rfc3339, share, units} from './format.js';
import {tellPartial} from './poll.js';
import {spans, view} from './view.js';

const most = 1000, shown = 20;
const panel = $('#policies');

export async function load(signal) {
  const span = spans[view.span];
  const usage = await ask('v1/usage', {by: 'policy', top: most, policy: view.scope, from: rfc3339(now() - span.length)}, signal);
  tell(usage, span);
}

function tell(usage, span) {
  const groups = usage.usage.toSorted((a, b) => b.refused - a.refused);
  show($('table', panel), groups.length > 0);
  show($('.none', panel), groups.length === 0);
  setText($('.none', panel), `Nobody asked in the ${span.words}.`);
  setRows($('tbody', panel), groups.slice(0, shown), (group) => group.policy, (group) => el('tr', {},
    el('th', {scope: 'row'}, foreign(group.policy), ...(usage.shadow.includes(group.policy) ? [' ', el('span', {class: 'tag'}, 'in shadow: may have passed')] : [])),
    el('td', {class: 'number'}, units(group.refused)),
    el('td', {class: 'number'}, units(group.allowed)),
    shareCell(group)));
  tellCount(panel, Math.min(groups.length, shown), usage.groups, 'policies');
  tellPartial(panel, usage.partial);
  offer(groups.map((group) => group.policy));
}

/** Says how many are shown, if that is not all. */
export function tellCount(panel, n, all, what) {
  const note = $('.count', panel);
  show(note, n < all);
  setText(note, n < all ? `${units(n)} of ${units(all)} ${what}.` : '');
}

/** Says in a panel which refusals may have refused nobody. */
export function tellShadows(panel, shadows, refused) {
  const note = $('.shadows', panel);
  show(note, shadows.length > 0 && refused > 0);
  setText(note, `Refused units are also those of policies in shadow, which may have passed: ${shadows.join(', ')}.${view.scope ? '' : ' Choose a policy above to see it alone.'}`);
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
