"use strict";

// The table has a row for each lock that can be seen, and a few more: ten thousand locks
// cost no more than fifty. All that comes from a lock is set as text, never as markup.

const $ = (id) => document.getElementById(id);
const mayRelease = document.body.classList.contains("may-release");
const mayResolve = document.body.classList.contains("may-resolve");

const scroller = $("scroll");
const body = $("rows");
const overscan = 8;

let shown = []; // the locks that the table has, in its order
let extra = []; // locks that the server has found beyond its limit
let view = "all";
let sort = { by: "waiting", down: true };
let words = []; // what was typed

// visible makes characters visible that would move or hide other text.
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}]/gu, (c) => "⟨" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");
}

// brief is visible text for one line.
const brief = (text) => visible(text.length > 300 ? text.slice(0, 300) + "…" : text);

function duration(ms) {
  const s = Math.max(ms, 0) / 1000;
  if (s < 0.1) return Math.round(s * 1000) + " ms";
  if (s < 9.95) return s.toFixed(1) + " s";
  if (s < 60) return Math.floor(s) + " s";
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (s < 3600) return Math.floor(s / 60) + ":" + two(s % 60);
  if (s < 86400) return Math.floor(s / 3600) + ":" + two((s % 3600) / 60) + ":" + two(s % 60);
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

// seconds is a duration that counts: milliseconds would not be read.
const seconds = (ms) => (ms < 100 ? "0.0 s" : duration(ms));

const clockTime = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });

function modeText(lock) {
  switch (lock.mode) {
    case "permits": return lock.holders.length + " of " + lock.permits;
    case "shared": return lock.holders.length === 1 ? "1 reader" : lock.holders.length + " readers";
  }
  return "exclusive";
}

const holderText = (h) => (h.instance ? brief(h.instance) : "not lockmw");

// coolsDown says of a lock that nobody is at work under it: its key only stays taken for a while.
const coolsDown = (lock) => lock.holders.length > 0 && lock.holders.every((h) => h.cools);
const coolText = (lock) => "cooling down until " + clockTime(Math.max(...lock.holders.map((h) => h.until)));

// isHandedOn says of a lock that nobody is at work under it at the moment: a ticket has it, and whoever comes with that goes on.
const isHandedOn = (lock) => lock.holders.length === 1 && Boolean(lock.holders[0].handed_on);
const handedOnText = (lock) => "handed on until " + dayTime(lock.holders[0].until);

// dayTime is a moment that may be days away: on another day than now it has the date.
function dayTime(ms) {
  const at = new Date(ms);
  if (at.toDateString() === new Date(serverNow()).toDateString()) return clockTime(ms);
  return at.toLocaleDateString([], { month: "short", day: "numeric" }) + ", " + clockTime(ms);
}

function size(bytes) {
  return bytes < 1024 ? bytes + " B" : (bytes / 1024).toFixed(1) + " KiB";
}

// answerText says in a few words what Do has left beside a lock.
function answerText(a) {
  switch (a.state) {
    case "uncertain": return "UNCERTAIN since " + dayTime(a.since) + ", work " + a.work;
    case "in progress": return "work in progress since " + dayTime(a.since);
  }
  return (a.until > serverNow() ? "answer kept until " + dayTime(a.until) : "answer of " + dayTime(a.since) + ", for those who came before") + ", " + size(a.bytes);
}

// answerWord says it in one word or two, where a holder takes the room.
const answerWord = (a) => ({ uncertain: "UNCERTAIN", "in progress": "in progress" })[a.state] || "answer kept";

function element(name, className, text) {
  const e = document.createElement(name);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

// setText touches the page only if something is to be seen of it.
function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// order compares two locks: those of equal rank stay in the order of their keys.
const orders = {
  key: () => 0,
  waiting: (a, b) => a.waiting - b.waiting,
  by: (a, b) => compare((a.holders[0] || {}).instance || "", (b.holders[0] || {}).instance || ""),
  age: (a, b) => (b.since || Infinity) - (a.since || Infinity) || 0,
  left: (a, b) => (a.until || Infinity) - (b.until || Infinity) || 0,
};
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

function compareLocks(a, b) {
  const by = orders[sort.by](a, b);
  if (by) return sort.down ? -by : by;
  const key = compare(a.key, b.key);
  return sort.by === "key" && sort.down ? -key : key;
}

let sorted = []; // all locks
let stale = true; // sorted is not what locks are

// choose finds which locks the table shows.
function choose() {
  const now = serverNow();
  if (stale) {
    sorted = [...locks.values()].sort(compareLocks);
    stale = false;
  }
  let all = sorted;
  if (extra.length > 0) {
    const known = new Set();
    for (const lock of sorted) known.add(lock.key);
    const more = extra.filter((lock) => !known.has(lock.key));
    if (more.length > 0) all = [...sorted, ...more].sort(compareLocks);
  }
  let waited = 0, lates = 0;
  shown = [];
  for (const lock of all) {
    const isLate = late(lock, now);
    if (lock.waiting > 0) waited++;
    if (isLate) lates++;
    if (view === "waited" && lock.waiting === 0 || view === "late" && !isLate) continue;
    if (words.length > 0 && !words.every((w) => searchText(lock).includes(w))) continue;
    shown.push(lock);
  }
  setText($("count-all"), locks.size.toLocaleString("en"));
  setText($("count-waited"), waited.toLocaleString("en"));
  setText($("count-late"), lates.toLocaleString("en"));
  $("count-late").parentElement.classList.toggle("some", lates > 0);
}

// Rows, by the lock that they show, and the spaces for those that are not there.
const rows = new Map();
const above = body.appendChild(spacer());
const below = body.appendChild(spacer());
let active = null; // key of the row that Tab reaches

function spacer() {
  const tr = element("tr", "space");
  tr.setAttribute("aria-hidden", "true");
  return tr;
}

const rowHeight = () => parseFloat(getComputedStyle(scroller).getPropertyValue("--row"));

function newRow() {
  const tr = element("tr");
  tr.setAttribute("role", "row");
  const cell = (name) => {
    const td = tr.appendChild(element("td", name));
    td.setAttribute("role", "cell");
    return td;
  };
  const parts = { tr };
  parts.key = cell("key").appendChild(element("button"));
  parts.key.type = "button";
  parts.keyText = parts.key.appendChild(element("bdi"));
  parts.mode = cell("mode");
  parts.waiting = cell("waiting").appendChild(element("span"));
  const by = cell("by");
  parts.by = by.appendChild(element("bdi"));
  parts.more = by.appendChild(element("span", "more"));
  parts.answer = by.appendChild(element("span", "answer"));
  parts.note = cell("note").appendChild(element("bdi"));
  parts.age = cell("age");
  const left = cell("left");
  const bar = left.appendChild(element("span", "bar"));
  parts.bar = bar.appendChild(element("span"));
  parts.left = left.appendChild(element("span", "ttl"));
  const last = cell("do");
  if (mayRelease) {
    parts.release = last.appendChild(element("button", "danger quiet", "Release…"));
    parts.release.type = "button";
    parts.release.addEventListener("click", (e) => {
      e.stopPropagation();
      askToRelease(parts.lock);
    });
  }
  tr.addEventListener("click", () => {
    if (String(getSelection()) === "") showDetail(parts.lock);
  });
  return parts;
}

function fillRow(parts, lock, index) {
  if (parts.lock !== lock) {
    parts.lock = lock;
    const first = lock.holders[0];
    setText(parts.keyText, brief(lock.key));
    parts.key.title = lock.key.length > 40 ? brief(lock.key) : "";
    setText(parts.mode, modeText(lock));
    setText(parts.waiting, lock.waiting ? String(lock.waiting) : "");
    parts.waiting.className = lock.waiting ? "badge" : "";
    const cools = coolsDown(lock), waits = isHandedOn(lock);
    setText(parts.by, cools ? coolText(lock) : waits ? handedOnText(lock) : first ? holderText(first) : lock.waiting ? "nobody, until the next one has it" : "");
    parts.by.className = cools || waits || !first || !first.instance ? "dim" : first.own ? "own" : "";
    parts.by.title = cools ? "its work is over" : waits ? "by " + holderText(first) + ", to a ticket" : first && first.own ? "this process" : "";
    setText(parts.more, !cools && lock.holders.length > 1 ? "+" + (lock.holders.length - 1) : "");
    const a = lock.answer;
    parts.answer.hidden = !a;
    parts.answer.dataset.state = a ? a.state : "";
    setText(parts.answer, !a ? "" : first || lock.waiting ? answerWord(a) : answerText(a));
    parts.answer.title = a ? answerText(a) : "";
    parts.tr.classList.toggle("no-note", Boolean(a) && !(first && first.note)); // its room is the answer's
    setText(parts.note, first && first.note ? brief(first.note) : "");
    if (parts.release) {
      parts.release.hidden = !first;
      parts.release.setAttribute("aria-label", "Release " + brief(lock.key) + " by force");
    }
  }
  parts.tr.setAttribute("aria-rowindex", String(index + 2));
  const reached = lock.key === active;
  parts.key.tabIndex = reached ? 0 : -1;
  if (parts.release) parts.release.tabIndex = reached ? 0 : -1;
  tickRow(parts, serverNow());
}

// tickRow shows what changes as time passes.
function tickRow(parts, now) {
  const lock = parts.lock;
  const cools = coolsDown(lock) || isHandedOn(lock); // and nobody renews it
  setText(parts.age, lock.since && !cools ? seconds(now - lock.since) : "–");
  let left = "–", part = 0;
  if (lock.until) {
    left = seconds(lock.until - now);
    part = Math.min(Math.max((lock.until - now) / lock.most, 0), 1);
  } else if (lock.holders.length > 0) {
    left = "no TTL";
  }
  setText(parts.left, left);
  const scale = "scaleX(" + part.toFixed(3) + ")";
  if (parts.scale !== scale) parts.bar.style.transform = parts.scale = scale;
  // The whole TTL is not told: the most that was seen to be left of it is nearly that.
  const stuck = Boolean(lock.since) && !cools && lock.most > 0 && now - lock.since >= 10 * lock.most;
  if (parts.stuck !== stuck) {
    parts.stuck = stuck;
    parts.tr.toggleAttribute("data-stuck", stuck);
    parts.age.title = stuck ? "held for ten TTLs or longer: is its work stuck?" : "";
  }
  const level = !lock.holders.length || cools ? "none" : !lock.until || part < 0.25 ? "bad" : part < 0.5 ? "late" : "good";
  if (parts.level !== level) parts.tr.dataset.level = parts.level = level;
}

// draw has the rows that can be seen in the page, and no others.
function draw() {
  const height = rowHeight();
  const first = Math.max(Math.floor(scroller.scrollTop / height) - overscan, 0);
  const count = Math.ceil(scroller.clientHeight / height) + 2 * overscan;
  const seen = shown.slice(first, first + count);
  if (!shown.some((lock) => lock.key === active)) active = shown.length > 0 ? shown[0].key : null;
  const focus = focusedPart();
  const wanted = new Set(seen.map((lock) => lock.key));
  scroller.style.setProperty("--key", String(seen.reduce((most, lock) => Math.max(most, brief(lock.key).length), 0) + 1));
  const free = [];
  for (const [key, parts] of rows) {
    if (!wanted.has(key)) {
      rows.delete(key);
      free.push(parts);
    }
  }
  let place = above;
  seen.forEach((lock, i) => {
    let parts = rows.get(lock.key);
    if (!parts) {
      parts = free.pop() || newRow();
      rows.set(lock.key, parts);
    }
    fillRow(parts, lock, first + i);
    if (place.nextSibling !== parts.tr) place.after(parts.tr);
    place = parts.tr;
  });
  for (const parts of free) parts.tr.remove();
  above.style.height = first * height + "px";
  below.style.height = Math.max(shown.length - first - seen.length, 0) * height + "px";
  $("table").setAttribute("aria-rowcount", String(shown.length + 1));
  keepFocus(focus);
  const empty = $("empty");
  empty.hidden = shown.length > 0;
  setText(empty, emptyText());
}

function emptyText() {
  if (!asOf) return "Reading the locks…";
  if (words.length > 0) return "No lock matches. One that nobody has or waits for is found by its whole key, if it has an answer.";
  if (view === "waited") return "Nobody waits for a lock.";
  if (view === "late") return "All locks are renewed as they should be.";
  return "No lock is held.";
}

// focusedPart tells which lock's row has the focus, and which part of it.
function focusedPart() {
  const at = document.activeElement;
  for (const [key, parts] of rows) {
    if (at === parts.key || at === parts.release) return { key, part: at === parts.key ? "key" : "release", at };
  }
  return null;
}

// keepFocus gives the focus back to the lock that had it, whose row may have moved. Where it
// cannot be seen any more, the list has it, and the arrows go on from there.
function keepFocus(was) {
  if (!was) return;
  const parts = rows.get(was.key);
  const to = parts && parts[was.part];
  if (to === document.activeElement) return;
  if (to && !to.hidden) to.focus({ preventScroll: true });
  else if (document.activeElement === was.at || document.activeElement === document.body) scroller.focus({ preventScroll: true });
}

// moveTo makes the row at index the active one, and brings it into view.
function moveTo(index) {
  if (shown.length === 0) return;
  index = Math.min(Math.max(index, 0), shown.length - 1);
  active = shown[index].key;
  const height = rowHeight(), top = index * height, head = document.querySelector("thead").offsetHeight;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + height > scroller.scrollTop + scroller.clientHeight - head) scroller.scrollTop = top + height - scroller.clientHeight + head;
  draw();
  rows.get(active).key.focus({ preventScroll: true });
}

scroller.addEventListener("keydown", (e) => {
  if (e.altKey || e.ctrlKey || e.metaKey || e.target.closest("thead")) return;
  const at = shown.findIndex((lock) => lock.key === active);
  const page = Math.max(Math.floor(scroller.clientHeight / rowHeight()) - 2, 1);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  if (e.key === "ArrowUp" && at <= 0) $("search").focus();
  else moveTo(to);
});

scroller.addEventListener("focusin", () => {
  const focus = focusedPart();
  if (!focus || focus.key === active) return;
  active = focus.key;
  draw();
});

document.querySelector("thead").addEventListener("click", (e) => {
  const button = e.target.closest("button[data-sort]");
  if (!button) return;
  const by = button.dataset.sort;
  sort = { by, down: sort.by === by ? !sort.down : by === "waiting" || by === "age" };
  stale = true;
  showSort();
  changed();
});

function showSort() {
  for (const button of document.querySelectorAll("button[data-sort]")) {
    const th = button.parentElement;
    if (button.dataset.sort === sort.by) th.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
}
