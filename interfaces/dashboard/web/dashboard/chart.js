// Draws lines over time with uPlot, which draws on a canvas: what it shows is told in
// words and in a table beside it too.

import {$} from './dom.js';
import {clock} from './format.js';

const {uPlot} = globalThis;
const schemes = matchMedia('(prefers-color-scheme: dark)');

const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Kinds of lines: values hold until the next one. */
export const lines = {
  area: (label, name) => ({label, stroke: colour(name), fill: colour(`${name}-area`), width: 2, paths: uPlot.paths.stepped({align: 1}), points: {show: false}}),
  dashed: (label, name) => ({label, stroke: colour(name), width: 2, dash: [6, 4], paths: uPlot.paths.stepped({align: 1}), points: {show: false}}),
  marks: (label, name) => ({label, stroke: colour(name), fill: colour(name), paths: () => null, points: {show: true, size: 7, space: 0, width: 1.5, stroke: colour(name), fill: colour('--surface')}}),
};

const axis = () => ({stroke: colour('--muted'), grid: {stroke: colour('--line'), width: 1}, ticks: {stroke: colour('--line'), width: 1}, font: '12px system-ui, sans-serif'});

function timeLabels(_, splits, __, ___, step) {
  return splits.map((t) => step >= 86400 ? clock(t * 1000, {day: true}).slice(5, 10) : clock(t * 1000, {seconds: step < 60, day: false}));
}

export class Chart {
  #box;
  #readout;
  #plot = null;

  /**
   * @param figure holds .chart and .readout
   * @param series lines, see above
   * @param {(values: number[], index: number) => string} read what to tell of the place pointed at
   */
  constructor(figure, series, read) {
    this.#box = $('.chart', figure);
    this.#readout = $('.readout', figure);
    this.series = series;
    this.read = read;
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(this.#box);
    schemes.addEventListener('change', () => this.#plot?.redraw(false, true));
  }

  #size() { return {width: Math.max(this.#box.clientWidth, 200), height: this.#box.clientHeight || 220}; }

  /** Shows values: times in seconds that never fall, then a list for each line, null where it has nothing. */
  draw(data, {from, to}, words) {
    this.#box.setAttribute('aria-label', words);
    if (this.#plot) {
      this.#plot.setData(data, false);
    } else {
      this.#plot = new uPlot(this.#options(), data, this.#box);
    }
    const highest = Math.max(1, ...data.slice(1).flat().filter((n) => n !== null));
    this.#plot.batch(() => {
      this.#plot.setScale('x', {min: from, max: to});
      this.#plot.setScale('y', {min: 0, max: highest * 1.1});
    });
  }

  #options() {
    return {
      ...this.#size(),
      legend: {show: false},
      cursor: {y: false, drag: {x: false, y: false}, points: {size: 6}},
      scales: {x: {time: true, auto: false}, y: {auto: false}},
      axes: [{...axis(), values: timeLabels, space: 64, size: 32}, {...axis(), size: 56, values: (_, splits) => splits.map(compact)}],
      series: [{}, ...this.series],
      hooks: {setCursor: [(plot) => this.#point(plot)]},
    };
  }

  #point(plot) {
    const i = plot.cursor.idx;
    this.#readout.textContent = i == null ? '' : this.read(plot.data.map((values) => values[i]), i);
  }
}

const compact = (n) => n === null ? '' : new Intl.NumberFormat('en', {notation: 'compact', maximumFractionDigits: 1}).format(n);
