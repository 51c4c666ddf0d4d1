// Numbers and times as people read them, in the browser's own time zone.

import {el} from './dom.js';

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const tenths = new Intl.NumberFormat('en', {maximumFractionDigits: 1});
const percents = new Intl.NumberFormat('en', {style: 'percent', minimumFractionDigits: 1, maximumFractionDigits: 1});

export const units = (n) => typeof n === 'number' ? whole.format(n) : String(n); // or "unlimited"
export const rate = (n) => tenths.format(n);
export const share = (part, all) => percents.format(all ? part / all : 0);

const two = (n) => String(n).padStart(2, '0');

/** 14:03:05, with the day before it unless it is today. */
export function clock(milliseconds, {seconds = true, day} = {}) {
  const t = new Date(milliseconds), today = new Date();
  const dated = day ?? t.toDateString() !== today.toDateString();
  const time = `${two(t.getHours())}:${two(t.getMinutes())}${seconds ? `:${two(t.getSeconds())}` : ''}`;
  return dated ? `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${time}` : time;
}

/** How far the browser's zone is from UTC at a time, as UTC+09:00. */
export function offset(milliseconds = Date.now()) {
  const minutes = -new Date(milliseconds).getTimezoneOffset();
  return `UTC${minutes < 0 ? '−' : '+'}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

/** A time of the server's, short to read and exact in its title. */
export function time(text, options) {
  return el('time', {datetime: text, title: text}, clock(Date.parse(text), options));
}

/** 1 h 2 min 3 s. */
export function duration(seconds) {
  const days = Math.floor(seconds / 86400), hours = Math.floor(seconds / 3600) % 24, minutes = Math.floor(seconds / 60) % 60;
  const parts = [[days, 'd'], [hours, 'h'], [minutes, 'min'], [seconds % 60, 's']].filter(([n]) => n > 0);
  return parts.slice(0, 2).map(([n, unit]) => `${n} ${unit}`).join(' ') || '0 s';
}

/** Whether a call was counted in a sliding window, where a part of the one before weighs in. */
export const slides = (call) => Boolean(call.schedule?.startsWith('sliding'));

/** RFC 3339 without a fraction that says nothing. */
export const rfc3339 = (milliseconds) => new Date(milliseconds).toISOString().replace('.000Z', 'Z');

/** The time of a datetime-local field as RFC 3339, '' if there is none. */
export function fromField(value) {
  const t = Date.parse(value); // without an offset it is local
  return value && !Number.isNaN(t) ? rfc3339(t) : '';
}

/** The value of a datetime-local field for a time, '' for none. */
export function toField(text) {
  const t = Date.parse(text);
  return Number.isNaN(t) ? '' : clock(t, {day: true}).replace(' ', 'T');
}
