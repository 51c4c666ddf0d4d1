// Makes and changes elements. Text becomes text, never markup.

export const $ = (selector, within = document) => within.querySelector(selector);

/** An element with attributes (those that are undefined or false left out) and children, elements or texts. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(attribute, value);
  }
  element.append(...children);
  return element;
}

/** A button that does something. */
export function button(attributes, action, ...children) {
  const made = el('button', {type: 'button', ...attributes}, ...children);
  made.addEventListener('click', action);
  return made;
}

// Characters that are not seen or turn the text around them: they are shown by number.
const unseen = /[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;

/** What a client sent, kept apart from the direction of the text around it. */
export function foreign(text, attributes = {}) {
  const parts = [];
  let plain = '';
  for (const character of text) {
    if (!unseen.test(character)) { plain += character; continue; }
    const number = `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
    parts.push(plain, el('span', {class: 'code', title: 'a character that is not seen'}, number));
    plain = '';
  }
  return el('bdi', {class: 'foreign', title: text.length > 24 ? text : undefined, ...attributes}, ...parts, plain);
}

/** Shows an element or hides it. */
export function show(element, shown) { element.hidden = !shown; }

/** Sets the text of an element if it is another, so that nothing is read out twice. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Gives an element children if it has others, so that what is selected stays. */
export function setChildren(element, ...children) {
  const fresh = el('div', {}, ...children).childNodes;
  if (fresh.length !== element.childNodes.length || [...fresh].some((node, i) => !node.isEqualNode(element.childNodes[i]))) element.replaceChildren(...fresh);
}

/** Tells who listens rather than looks. */
export function say(text) { $('#said').textContent = text; }

/**
 * Makes the rows of a table body those of items, in order. Rows and cells that are as
 * they were stay, and with them the focus and what is selected.
 */
export function setRows(body, items, idOf, make) {
  const focused = document.activeElement;
  const old = new Map([...body.rows].map((row) => [row.dataset.id, row]));
  let at = body.rows[0] ?? null;
  for (const item of items) {
    const fresh = make(item);
    fresh.dataset.id = idOf(item);
    const row = old.get(fresh.dataset.id);
    old.delete(fresh.dataset.id);
    if (!row) { body.insertBefore(fresh, at); continue; }
    takeCells(row, fresh);
    if (row === at) at = at.nextElementSibling;
    else body.insertBefore(row, at);
  }
  for (const row of old.values()) row.remove();
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({preventScroll: true});
}

function takeCells(row, fresh) {
  if (row.className !== fresh.className) row.className = fresh.className;
  [...fresh.cells].forEach((cell, i) => {
    if (!row.cells[i].isEqualNode(cell)) row.cells[i].replaceWith(cell);
  });
}
