// Which policies refuse, and which of them may only have said so.

import {ask, now} from './api.js';
import {$, el, foreign, setRows, setText, show} from './dom.js';
import {rfc3339, units} from './format.js';
import {shareCell, tellCount, tellPartial} from './notes.js';
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

/** Lets policies be chosen that were seen. */
export function offer(names) {
  const choice = $('#scope-policy'), list = $('#policy-names');
  for (const name of names) {
    if (![...choice.options].some((option) => option.value === name)) choice.append(el('option', {value: name}, name));
    if (![...list.options].some((option) => option.value === name)) list.append(el('option', {value: name}));
  }
}
