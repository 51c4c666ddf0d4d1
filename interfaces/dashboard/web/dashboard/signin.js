// Signing in: the token is tried before the board is shown.

import {ask, currentToken, useToken} from './api.js';
import {$, say, setText, show} from './dom.js';

export class SignIn {
  #form = $('#signin-form');
  #field = $('#token');

  /** @param onSignedIn is called when a token was accepted */
  constructor(onSignedIn) {
    this.onSignedIn = onSignedIn;
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.try(this.#field.value.trim(), {typed: true});
    });
  }

  /** Asks for a token, and says why if there is a reason. */
  open(reason = '', {focus = true} = {}) {
    useToken('');
    show($('#signin'), true);
    show($('#board'), false);
    show($('#controls'), false);
    setText($('#freshness'), 'The audit log of a rate limiter');
    setText($('#signin-problem'), reason);
    this.#field.setAttribute('aria-invalid', reason ? 'true' : 'false');
    if (focus) this.#field.focus();
  }

  /** Signs in with a token if it opens the log. */
  async try(token, {typed = false} = {}) {
    useToken(token);
    try {
      await ask('v1/calls', {limit: 1});
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      if (problem.isOfToken || problem.status === 429) {
        const wait = problem.retryAfter ? ` Try again in ${problem.retryAfter} seconds.` : '';
        this.open(problem.message + wait);
        this.#field.select();
        return;
      }
      // Whether the token is right nobody can say now: the board says what is wrong, and recovers.
    }
    if (currentToken() !== token) return; // another was tried meanwhile
    this.#field.value = '';
    setText($('#signin-problem'), '');
    show($('#signin'), false);
    show($('#board'), true);
    show($('#controls'), true);
    if (typed) $('#main').focus({preventScroll: true});
    say('Signed in.');
    this.onSignedIn();
  }
}
