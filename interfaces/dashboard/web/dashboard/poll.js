// Keeps panels current: each asks anew some time after its last answer, so that its
// requests never overlap and a slow answer is asked for less often.

import {$, setText} from './dom.js';
import {clock} from './format.js';

const pace = 2000, slowest = 30_000; // milliseconds

export class Poller {
  #panels = [];
  #failing = new Map(); // problem by panel
  #updated = 0;
  #signedIn = false;
  paused = false;

  /** @param onToken is told of problems of the token */
  constructor(onToken) {
    this.onToken = onToken;
    document.addEventListener('visibilitychange', () => this.#live && this.refresh());
  }

  get isSignedIn() { return this.#signedIn; }

  get #live() { return this.#signedIn && !this.paused && !document.hidden; }

  /**
   * A panel in element is filled by load(signal).
   * @param {() => boolean} [wanted] whether there is something to ask for
   * @param {number} [every] at least so many milliseconds apart
   */
  panel(element, load, {wanted = () => true, every = pace} = {}) {
    const panel = new Panel(element, load, wanted, every, {
      isLive: () => this.#live,
      done: () => this.#done(panel),
      failed: (problem) => this.#failed(panel, problem),
    });
    this.#panels.push(panel);
    return panel;
  }

  start() {
    this.#signedIn = true;
    this.refresh();
  }

  stop() {
    this.#signedIn = false;
    this.#failing.clear();
    for (const panel of this.#panels) panel.stop();
    this.#tell();
  }

  setPaused(paused) {
    this.paused = paused;
    if (paused) for (const panel of this.#panels) panel.rest();
    else this.refresh();
    this.#tell();
  }

  refresh() { for (const panel of this.#panels) panel.ask(); }

  #done(panel) {
    this.#updated = Date.now();
    if (this.#failing.delete(panel)) for (const other of this.#failing.keys()) other.ask();
    this.#tell();
  }

  #failed(panel, problem) {
    if (problem.isOfToken) { this.onToken(problem); return; }
    this.#failing.set(panel, problem);
    this.#tell();
  }

  #tell() {
    const problem = [...this.#failing.values()].at(-1);
    const at = this.#updated ? clock(this.#updated) : '';
    document.documentElement.classList.toggle('old', Boolean(problem));
    setText($('#banner'), problem ? `${problem.status ? `The server answers ${problem.status}: ` : ''}${problem.message} ${at ? `What is shown is old, of ${at}. ` : ''}The page keeps asking.` : '');
    if (!this.#signedIn) return;
    setText($('#freshness'), problem ? `Old: of ${at || 'no time'}` : this.paused ? `Paused at ${at}` : `Live, updated ${at}`);
  }
}

class Panel {
  #timer = 0;
  #request = null; // the controller of the one under way
  #again = false;
  #failures = 0;

  constructor(element, load, wanted, every, told) {
    Object.assign(this, {element, load, wanted, every, told});
  }

  /** Asks at once, for something new if so: then what is under way is given up. */
  async ask({anew = false} = {}) {
    clearTimeout(this.#timer);
    if (anew) this.element.setAttribute('aria-busy', 'true');
    if (this.#request) {
      if (!anew) return;
      this.#again = true;
      this.#request.abort();
      return;
    }
    if (!this.wanted()) {
      this.element.removeAttribute('aria-busy');
      return;
    }
    const request = this.#request = new AbortController();
    const begun = performance.now();
    let problem = null;
    try {
      await this.load(request.signal);
    } catch (failure) {
      problem = failure;
    }
    this.#request = null;
    if (this.#again) {
      this.#again = false;
      this.ask();
      return;
    }
    if (request.signal.aborted) return; // stopped
    this.element.removeAttribute('aria-busy');
    this.#after(problem, performance.now() - begun);
  }

  #after(problem, took) {
    const own = $('.problem', this.element);
    setText(own, problem?.isOfQuestion || problem?.apart ? problem.message : '');
    if (problem && problem.status === undefined) throw problem; // a fault of this page
    if (!problem || problem.isOfQuestion) {
      this.#failures = 0;
      this.told.done();
    } else {
      this.#failures++;
      if (!problem.apart) this.told.failed(problem);
    }
    if (!this.told.isLive() || problem?.isOfQuestion) return;
    const wait = problem ? Math.max(pace * 2 ** (this.#failures - 1), problem.retryAfter * 1000) : Math.max(this.every, 4 * took);
    this.#timer = setTimeout(() => this.told.isLive() && this.ask(), Math.min(wait, slowest));
  }

  /** Asks no more by itself. */
  rest() { clearTimeout(this.#timer); }

  /** Asks no more and gives up what is under way. */
  stop() {
    this.rest();
    this.#again = false;
    this.#request?.abort();
  }
}
