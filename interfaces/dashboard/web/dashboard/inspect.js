// Looks into one key: its explanation and its history.

import {$, button, foreign, say, setChildren, show} from './dom.js';
import {explain, forget as forgetExplanation, whenDue} from './explain.js';
import {fromField, toField} from './format.js';
import {forget as forgetHistory, load as loadHistory} from './history.js';
import {change, view} from './view.js';

let asked = null; // {key, policy, at}: what is looked into; policy and at '' if they are to be found
let found = null; // the same with what was found, once it was

export class Inspector {
  constructor(poller) {
    const wanted = () => asked !== null;
    this.explaining = poller.panel($('#explain'), (signal) => this.#explain(signal), {wanted, every: 10_000});
    this.recalling = poller.panel($('#history'), (signal) => loadHistory(found, signal), {wanted: () => found !== null && found.policy !== ''});
    whenDue(() => poller.isSignedIn && !poller.paused && this.explaining.ask());
    $('#inspect-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.open({key: $('#inspect-key').value, policy: $('#inspect-policy').value, at: fromField($('#inspect-at').value)});
    });
  }

  /** Looks into a key, and moves the focus there. */
  open(what) {
    this.#look(what);
    $('#inspect-title').focus();
    $('#inspect').scrollIntoView();
  }

  /** Looks into what the view says, which may be nothing. */
  take() {
    if (view.key === (found?.key ?? '') && view.policy === (found?.policy ?? '') && view.at === (found?.at ?? '')) return;
    if (view.key) this.#look({key: view.key, policy: view.policy, at: view.at});
    else this.close();
  }

  close() {
    asked = found = null;
    this.explaining.stop();
    this.recalling.stop();
    forgetExplanation();
    forgetHistory();
  }

  #look({key, policy = '', at = ''}) {
    this.close();
    asked = {key, policy, at};
    $('#inspect-policy').value = policy;
    $('#inspect-key').value = key;
    $('#inspect-at').value = toField(at);
    show($('#explain'), true); // for a problem to be told
    this.explaining.ask({anew: true});
  }

  async #explain(signal) {
    const question = asked;
    const first = found === null;
    const told = await explain(found ?? question, signal);
    this.#tellOthers(told);
    if (question !== asked || !first) return;
    // The server tells the key as it has it: hashed, if it hashes keys.
    found = {key: told.key, policy: told.policy, at: told.hit || question.at ? told.at : ''};
    $('#inspect-key').value = found.key;
    $('#inspect-policy').value = found.policy;
    change(found, {step: true});
    say('Explained.');
    this.recalling.ask({anew: true});
  }

  /** Lets the policies be looked into that refused at the same time. */
  #tellOthers(told) {
    const others = told.refused_too ?? [];
    show($('#too'), others.length > 0);
    setChildren($('#too'), ...(others.length ? ['Refused then too by ', ...others.flatMap((policy, i) => [i ? ', ' : '',
      button({class: 'link'}, () => this.open({key: told.key, policy, at: found?.at ?? told.at}), foreign(policy))]), '.'] : []));
  }
}
