// What is looked at, kept in the address's fragment: it can be bookmarked, and a
// fragment is not sent to any server.

const defaults = {
  span: '1h', scope: '', order: 'refused', // the figures
  key: '', policy: '', at: '', // the key that is looked into
  'f.key': '', 'f.policy': '', 'f.outcome': '', 'f.path': '', 'f.request_id': '', 'f.from': '', 'f.to': '', // calls
};

/** Milliseconds of the spans, and what they are added up by. */
export const spans = {
  '15m': {length: 15 * 60e3, by: 'minute', words: 'last 15 minutes'},
  '1h': {length: 3600e3, by: 'minute', words: 'last hour'},
  '6h': {length: 6 * 3600e3, by: 'minute', words: 'last 6 hours'},
  '24h': {length: 24 * 3600e3, by: 'hour', words: 'last 24 hours'},
  '7d': {length: 7 * 24 * 3600e3, by: 'hour', words: 'last 7 days'},
};

export const view = {...defaults};

/** Reads the address. */
export function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(defaults)) view[name] = said.get(name) ?? defaults[name];
  if (!spans[view.span]) view.span = defaults.span;
  if (view.order !== 'units') view.order = defaults.order;
}

/** Takes changes into the view and the address. A step can be gone back by the browser. */
export function change(changes, {step = false} = {}) {
  Object.assign(view, changes);
  const fragment = new URLSearchParams();
  for (const [name, value] of Object.entries(view)) {
    if (value !== defaults[name]) fragment.set(name, value);
  }
  const address = `${location.pathname}${location.search}${fragment.size ? `#${fragment}` : ''}`;
  if (address === `${location.pathname}${location.search}${location.hash}`) return;
  history[step ? 'pushState' : 'replaceState'](null, '', address);
}

/** Takes a token out of the address, '' if there is none there. */
export function takeToken() {
  const said = new URLSearchParams(location.hash.slice(1));
  const token = said.get('token');
  if (token === null) return '';
  said.delete('token');
  history.replaceState(null, '', `${location.pathname}${location.search}${said.size ? `#${said}` : ''}`);
  return token.trim();
}

/** Names of the filters of calls. */
export const filters = ['key', 'policy', 'outcome', 'path', 'request_id', 'from', 'to'];
