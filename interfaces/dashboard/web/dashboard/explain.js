// Why a key was refused, by which policy, and when it may come back.

import {ask} from './api.js';
import {$, el, foreign, setChildren, setText, show} from './dom.js';
import {clock, duration, offset} from './format.js';

const panel = $('#explain');
let passes = null; // at: when the key passes by the server's clock, here: by this browser's; or words
let onDue = () => {};

/** Has action done when the time has come at which a key was to pass. */
export function whenDue(action) { onDue = action; }

/** The explanation of a key under a policy at a time, '' being any policy and now. */
export async function explain({key, policy, at}, signal) {
  const told = await ask('v1/explain', {key, policy, at}, signal);
  show(panel, true);
  setChildren($('#explain-title'), foreign(told.key), ' under ', foreign(told.policy));
  setChildren($('#words'), ...told.text.split('\n').map((line) => el('p', {}, foreign(line, {title: undefined}))));
  passes = again(told);
  tellAgain();
  return told;
}

/** When the key passes again: a time that runs, or words. */
function again(told) {
  if (!told.passes_at) return {words: told.now?.limit === 0 ? 'Never passes as it is: the limit is 0.' : 'When it passes cannot be told: nothing is in force that could be looked at.'};
  if (told.now.shadow) return {words: 'Is not held back: the policy is in shadow.'};
  if (told.retry_after > 0) return {at: Date.parse(told.passes_at), here: Date.now() + told.retry_after * 1000};
  const known = told.hit || told.refused_before || told.refused_after || told.spent.length > 0 || told.now.count > 0 || told.now.previous_used > 0;
  return {words: known ? 'Passes now: a request of one unit would be allowed, if nobody else asks first.' : 'Passes now, and is unknown: neither the log nor the counters have this key under this policy at that time.'};
}

/** Shows nothing. */
export function forget() {
  passes = null;
  show(panel, false);
  for (const place of ['#explain-title', '#again', '#too', '#words']) $(place).replaceChildren();
}

/** Says when the key passes; the seconds run. */
function tellAgain() {
  const place = $('#again');
  if (!passes) return;
  if (passes.words) {
    setText(place, passes.words);
    return;
  }
  const left = Math.ceil((passes.here - Date.now()) / 1000);
  if (left <= 0) { // what is so now only the server can say
    passes = {words: `Was to pass at ${clock(passes.at)} (${offset(passes.at)}); asking again.`};
    setText(place, passes.words);
    onDue();
    return;
  }
  setText(place, `Passes again at ${clock(passes.at)} (${offset(passes.at)}), in ${duration(left)}, one unit, if nobody else asks first.`);
}
setInterval(tellAgain, 1000);
