// Asks the server that the page came from. What is no answer is a Problem.

/** A request that was not answered as it should be. Status 0: the server did not answer. */
export class Problem extends Error {
  constructor(status, detail, retryAfter = 0) {
    super(detail);
    this.status = status;
    this.retryAfter = retryAfter; // seconds
    this.apart = false; // whether it says nothing of the server, only of what was asked
  }

  /** Whether another token is needed before asking again makes sense. */
  get isOfToken() { return this.status === 401 || this.status === 403; }

  /** Whether what was asked for makes no sense, so that asking again does not either. */
  get isOfQuestion() { return this.status >= 400 && this.status < 500 && this.status !== 429 && !this.isOfToken; }
}

const patience = 20_000; // milliseconds until an answer counts as none
let token = stored(() => sessionStorage.getItem('token')) ?? '';
let skew = 0; // milliseconds that the server's clock is ahead

/** The token to ask with, '' if there is none. It is kept for this tab alone. */
export function currentToken() { return token; }

export function useToken(value) {
  token = value;
  stored(() => value ? sessionStorage.setItem('token', value) : sessionStorage.removeItem('token'));
}

/** The server's time in milliseconds, as far as its last answer told it. */
export function now() { return Date.now() + skew; }

/**
 * The answer to GET path with parameters, those that are empty left out.
 * @param {AbortSignal} [signal] gives the request up; that throws what the signal says
 */
export async function ask(path, parameters = {}, signal) {
  if (!/^[!-~]+$/.test(token)) throw new Problem(401, 'The token is not right.'); // it could not be sent
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== '' && value !== undefined) query.set(name, value);
  }
  const late = AbortSignal.timeout(patience);
  let response, body;
  try {
    response = await fetch(`${path}?${query}`, {
      headers: {Authorization: `Bearer ${token}`}, cache: 'no-store',
      signal: signal ? AbortSignal.any([signal, late]) : late,
    });
    body = await response.text();
  } catch (failure) {
    if (signal?.aborted) throw failure;
    throw new Problem(0, late.aborted ? 'The server does not answer in time.' : 'The server cannot be reached.');
  }
  readClock(response.headers.get('Date'));
  let answer;
  try { answer = JSON.parse(body); } catch { /* not this server's own */ }
  if (response.ok && answer) return answer;
  const detail = answer?.errors?.map((e) => e.detail).join('; ') || answer?.detail || answer?.title;
  throw new Problem(response.ok ? 0 : response.status, detail || `The answer was ${response.status} and no explanation.`, Number(response.headers.get('Retry-After')) || 0);
}

/** Dates are whole seconds and travel some time: less than two seconds is no difference. */
function readClock(date) {
  const difference = Date.parse(date ?? '') + 500 - Date.now();
  if (!Number.isNaN(difference)) skew = Math.abs(difference) < 2000 ? 0 : difference;
}

/** What use returns, or undefined where the browser keeps nothing. */
function stored(use) {
  try { return use(); } catch { return undefined; }
}
