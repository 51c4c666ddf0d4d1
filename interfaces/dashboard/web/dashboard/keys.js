// The keys that were refused most, or asked most.

import {ask, now} from './api.js';
import {$, button, el, foreign, setRows, setText, show} from './dom.js';
import {rfc3339, units} from './format.js';
import {shareCell, tellCount, tellPartial, tellShadows} from './notes.js';
import {spans, view} from './view.js';

const panel = $('#keys');

/** Makes load, which fills the panel; open(key) is what the button of a key does. */
export function loader(open) {
  return async (signal) => {
    const span = spans[view.span], from = rfc3339(now() - span.length);
    const usage = await ask('v1/usage', {by: 'key', order: view.order, policy: view.scope, from}, signal);
    tell(usage, span, open);
    tellShadows(panel, usage.shadow, usage.refused);
  };
}

function tell(usage, span, open) {
  show($('table', panel), usage.usage.length > 0);
  show($('.none', panel), usage.usage.length === 0);
  setText($('.none', panel), view.order === 'refused' ? `No key was refused in the ${span.words}.` : `No key asked in the ${span.words}.`);
  setRows($('tbody', panel), usage.usage, (group) => group.key, (group) => el('tr', {},
    el('th', {scope: 'row'}, button({class: 'link'}, () => open(group.key), foreign(group.key))),
    el('td', {class: 'number'}, units(group.refused)),
    el('td', {class: 'number'}, units(group.allowed)),
    shareCell(group)));
  tellCount(panel, usage.usage.length, usage.groups, 'keys');
  tellPartial(panel, usage.partial);
}
