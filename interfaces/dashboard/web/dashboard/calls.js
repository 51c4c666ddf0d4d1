// The list of calls, filtered, in pages. The first page is kept current.

import {ask} from './api.js';
import {$, button, el, foreign, say, setRows, setText, show} from './dom.js';
import {fromField, slides, time, toField, units} from './format.js';
import {change, filters, view} from './view.js';

const pageSize = 50;
const outcomes = {
  allowed: {allowed: true}, refused: {allowed: false}, unchecked: {kind: 'unchecked'},
  changes: {kind: 'reset,quota_set,quota_unset,policy_set,policy_removed'},
};
const kinds = {reset: 'counter reset', quota_set: 'quota set', quota_unset: 'quota removed', policy_set: 'policy put in force', policy_removed: 'policy removed', unchecked: 'passed unchecked'};
const panel = $('#calls');

export class Calls {
  #cursor = ''; // of the page that is shown, '' for the first
  #next = '';
  #fresh = false; // whether the next answer is to something new
  #open;

  /** @param open explains a call: {key, policy, at} */
  constructor(poller, open) {
    this.#open = open;
    this.panel = poller.panel(panel, (signal) => this.#load(signal), {wanted: () => this.#cursor === '' || this.#fresh});
    const form = $('#filter');
    form.addEventListener('submit', (event) => { event.preventDefault(); this.#filter(); });
    form.addEventListener('reset', () => setTimeout(() => this.#filter())); // when the fields are empty
    $('#older').addEventListener('click', () => this.#turn(this.#next));
    $('#newest').addEventListener('click', () => this.#turn(''));
  }

  /** Fills the fields by the view. */
  take() {
    for (const name of filters) {
      const field = $(`#f-${name}`);
      field.value = field.type === 'datetime-local' ? toField(view[`f.${name}`]) : view[`f.${name}`];
    }
    this.#turn('');
  }

  #filter() {
    for (const name of filters) {
      const field = $(`#f-${name}`);
      view[`f.${name}`] = field.type === 'datetime-local' ? fromField(field.value) : field.value;
    }
    this.#turn('');
  }

  #turn(cursor) {
    this.#cursor = cursor;
    this.#fresh = true;
    this.panel.ask({anew: true});
  }

  async #load(signal) {
    const question = {
      key: view['f.key'], policy: view['f.policy'], path: view['f.path'], request_id: view['f.request_id'],
      from: view['f.from'], to: view['f.to'], ...outcomes[view['f.outcome']], limit: pageSize,
    };
    const page = await ask('v1/calls', {...question, cursor: this.#cursor}, signal).catch((problem) => {
      if (problem.status === 503 && (question.path || question.request_id)) {
        problem.apart = true;
        problem.message += ' To look through all calls for a path or a request ID may take too long: say a time or a key too.';
      }
      throw problem;
    });
    if (this.#fresh && question.key && page.calls[0]) {
      const field = $('#f-key');
      if (field.value === question.key) field.value = page.calls[0].key; // as the server has it: hashed, if it hashes keys
      view['f.key'] = page.calls[0].key;
    }
    this.#next = page.next ?? '';
    this.#tell(page.calls);
    if (!this.#fresh) return;
    this.#fresh = false;
    change({}, {step: this.#cursor === ''});
    say(page.calls.length ? `${page.calls.length} calls shown.` : 'No call is like that.');
  }

  #tell(calls) {
    show($('table', panel), calls.length > 0);
    show($('.none', panel), calls.length === 0);
    setText($('.none', panel), 'No call is like that.');
    setRows($('tbody', panel), calls, (call) => call.id, (call) => this.#row(call));
    const older = $('#older'), newest = $('#newest');
    if (document.activeElement === older && !this.#next || document.activeElement === newest && !this.#cursor) $('#calls-title').focus();
    older.disabled = !this.#next;
    newest.disabled = !this.#cursor;
    setText($('#page-note'), this.#cursor ? 'An older page, which does not change.' : `The newest${this.#next ? `, ${pageSize} at a time` : ''}.`);
  }

  // Where it is narrow the style makes rows blocks: the roles keep the table a table.
  #row(call) {
    const hit = call.kind === 'hit';
    const cell = (label, attributes, ...children) => el('td', {role: 'cell', 'data-label': label, ...attributes}, ...children);
    return el('tr', {role: 'row', class: hit ? call.allowed ? 'allowed' : 'refused' : 'change'},
      el('th', {role: 'rowheader', scope: 'row', 'data-label': 'Time'}, time(call.called_at)),
      cell('Outcome', {}, outcome(call)),
      cell('Key', {}, foreign(call.key)),
      cell('Policy', {}, foreign(call.policy)),
      cell('Used of limit', {class: 'number'}, used(call)),
      cell('Units', {class: 'number'}, hit ? call.hits > 1 ? el('span', {title: `${units(call.hits)} requests alike share this row; the request is the first of them`}, `${units(call.hits)} × ${units(call.cost)}`) : units(call.cost) : ''),
      cell('Request', {}, foreign(`${call.method} ${call.path}`.trim()), call.request_id && hit ? el('span', {class: 'id'}, foreign(call.request_id)) : '', call.actor ? el('span', {class: 'id'}, 'by ', foreign(call.actor)) : ''),
      cell('Why', {}, ...(hit ? [button({'aria-label': `Explain call ${call.id}`}, () => this.#open({key: call.key, policy: call.policy, at: call.called_at}), 'Explain')] : [])));
  }
}

function outcome(call) {
  if (call.kind !== 'hit') return el('span', {class: 'outcome change'}, kinds[call.kind] ?? call.kind);
  return el('span', {class: `outcome ${call.allowed ? 'allowed' : 'refused'}`}, `${call.allowed ? 'allowed' : 'refused'}${call.shadow ? ' in shadow' : ''}`);
}

function used(call) {
  if (call.kind === 'hit') return `${units(call.count - call.refused)}${slides(call) ? ' + carried' : ''} of ${units(call.limit)}`;
  return call.limit === undefined ? '' : `limit ${units(call.limit)}`;
}
