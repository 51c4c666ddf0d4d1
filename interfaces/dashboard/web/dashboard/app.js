// Puts the page together.

import {currentToken, useToken} from './api.js';
import {Calls} from './calls.js';
import {$, say, setText} from './dom.js';
import {offset} from './format.js';
import {Inspector} from './inspect.js';
import {loader as keysLoader} from './keys.js';
import {load as loadPolicies, offer} from './policies.js';
import {Poller} from './poll.js';
import {SignIn} from './signin.js';
import {load as loadThroughput} from './throughput.js';
import {change, readAddress, takeToken, view} from './view.js';

const poller = new Poller((problem) => signOut(problem.message));
const inspector = new Inspector(poller);
const figures = [
  poller.panel($('#throughput'), loadThroughput),
  poller.panel($('#policies'), loadPolicies),
  poller.panel($('#keys'), keysLoader((key) => inspector.open({key, policy: view.scope}))),
];
const calls = new Calls(poller, (call) => inspector.open(call));
const signIn = new SignIn(() => {
  takeView();
  poller.start();
});

/** Shows what the address says. */
function takeView() {
  readAddress();
  if (view.scope) offer([view.scope]);
  $('#span').value = view.span;
  $('#scope-policy').value = view.scope;
  $('#keys-order').value = view.order;
  for (const panel of figures) panel.ask({anew: true});
  calls.take();
  inspector.take();
}

function choose(changes, panels) {
  change(changes, {step: true});
  for (const panel of panels) panel.ask({anew: true});
}

function signOut(reason) {
  poller.stop();
  inspector.close();
  for (const body of document.querySelectorAll('#board tbody')) body.replaceChildren();
  signIn.open(reason);
}

$('#span').addEventListener('change', (event) => choose({span: event.target.value}, figures));
$('#scope-policy').addEventListener('change', (event) => choose({scope: event.target.value}, figures));
$('#keys-order').addEventListener('change', (event) => choose({order: event.target.value}, figures));
$('#scope').addEventListener('submit', (event) => event.preventDefault());
$('#pause').addEventListener('click', (event) => {
  poller.setPaused(!poller.paused);
  event.target.setAttribute('aria-pressed', String(poller.paused));
  say(poller.paused ? 'Paused.' : 'Live again.');
});
$('#signout').addEventListener('click', () => { // and nothing of what was seen stays
  useToken('');
  history.replaceState(null, '', `${location.pathname}${location.search}`);
  location.reload();
});
$('#skip').addEventListener('click', (event) => {
  event.preventDefault(); // the address says what is looked at
  $('#main').focus();
});
addEventListener('hashchange', begin);

function begin() {
  const token = takeToken() || currentToken();
  if (!token) signIn.open();
  else if (token === currentToken() && poller.isSignedIn) takeView();
  else signIn.try(token);
}

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
setText($('#zone'), zone === 'UTC' ? 'Times are in UTC.' : `Times are those of ${zone}, now ${offset()}; explanations tell them in UTC.`);
setText($('#curl'), `curl -i -H 'X-Client-Key: alice' ${new URL('ping', document.baseURI)}`);
begin();
