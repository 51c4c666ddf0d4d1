// What panels say of their figures alike.

import {$, el, setText, show} from './dom.js';
import {share, units} from './format.js';
import {view} from './view.js';

/** A cell with the share of refused units, also as a bar. */
export function shareCell({allowed, refused}) {
  const bar = el('span', {class: 'bar', 'aria-hidden': 'true'}, el('span'));
  bar.firstChild.style.inlineSize = `${100 * refused / Math.max(allowed + refused, 1)}%`;
  return el('td', {class: 'number share'}, bar, el('span', {class: 'percent'}, share(refused, allowed + refused)));
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

/** Says in a panel that what is added up may lack something. */
export function tellPartial(panel, partial) {
  const note = $('.partial', panel);
  show(note, partial);
  setText(note, partial ? 'Partial: the log does not have all calls of this time; some were not logged, or are not kept any more.' : '');
}
