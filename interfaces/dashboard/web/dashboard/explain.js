// Why a key was refused, by which policy, and when it may come back.

import {ask} from './api.js';
import {$, el, foreign, setChildren, setText, show} from './dom.js';
import {clock, duration, offset} from './format.js';

const panel = $('#explain');
let passes = null; // at: when the key passes by the server's clock, here: by this browser's; or never

/** The explanation of a key under a policy at a time, '' being any policy and now. */
export async function explain({key, policy, at}, signal) {
  const told = await ask('v1/explain', {key, policy, at}, signal);
  show(panel, true);
  setChildren($('#explain-title'), foreign(told.key), ' under ', foreign(told.policy));
  setChildren($('#words'), ...told.text.split('\n').map((line) => el('p', {}, foreign(line, {title: undefined}))));
  passes = told.passes_at
    ? {at: Date.parse(told.passes_at), here: Date.now() + told.retry_after * 1000}
    : {never: true, blocked: told.now?.limit === 0};
  tellAgain();
  return told;
}

/** Shows nothing. */
export function forget() {
  passes = null;
  show(panel, false);
  for (const place of ['#explain-title', '#again', '#words']) $(place).replaceChildren();
}

/** Says when the key passes; the seconds run. */
function tellAgain() {
  const place = $('#again');
  if (!passes) return;
  if (passes.never) {
    setText(place, passes.blocked ? 'Never passes as it is: the limit is 0.' : 'When it passes cannot be told: nothing is in force that could be looked at.');
    return;
  }
  const left = Math.ceil((passes.here - Date.now()) / 1000);
  if (left <= 0) {
    setText(place, 'Passes now: a request of one unit would be allowed, if nobody else asks first.');
    return;
  }
  setText(place, `Passes again at ${clock(passes.at)} (${offset(passes.at)}), in ${duration(left)}, if nobody else asks first.`);
}
setInterval(tellAgain, 1000);
