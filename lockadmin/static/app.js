"use strict";

// What the page does as news come, as time passes and as somebody types.

let drawing = false;
let chosen = false; // shown is what it should be

// changed has the table drawn anew, once for all that changes until then.
function changed() {
  chosen = false;
  drawSoon();
}

function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    if (!chosen) {
      chosen = true;
      choose();
    }
    draw();
  });
}

onNews = (what) => {
  if (what === "locks") {
    stale = true;
    changed();
  } else if (what === "past") {
    drawPast();
  } else if (what === "settings") {
    drawSettings();
  } else {
    drawState();
    drawSoon();
  }
};

scroller.addEventListener("scroll", drawSoon, { passive: true });
new ResizeObserver(drawSoon).observe(scroller);

// Ages and what is left of TTLs count by themselves.
setInterval(() => {
  const now = serverNow();
  for (const parts of rows.values()) tickRow(parts, now);
  drawDetail();
  drawState();
}, 250);
setInterval(changed, 2000); // locks become late by themselves

// state says in one word how current the page is.
function state() {
  if (connection !== "open") return connection;
  if (status.state === "reading" || status.state === "live") {
    return asOf && serverNow() - asOf > 3 * status.every + 5000 ? "old" : status.state;
  }
  return status.state;
}

const stateTexts = {
  connecting: "Connecting",
  reading: "Reading",
  live: "Live",
  old: "Behind",
  broken: "No connection",
  unreachable: "Redis cannot be reached",
  closed: "Closed",
};

const bannerTexts = {
  old: "Reading the locks takes longer than it did.",
  broken: "The connection to the console is broken; trying again. Reload the page if you have been signed out.",
  unreachable: "Redis cannot be reached.",
  closed: "This process is shutting down: it has closed its locks.",
};

let bannerState = "";

function drawState() {
  const now = state();
  const pill = $("state");
  if (pill.dataset.state !== now) pill.dataset.state = now;
  const slow = now === "live" && status.every > 2500;
  setText($("state-text"), stateTexts[now] + (slow ? ", every " + Math.round(status.every / 1000) + " s" : ""));
  const banner = $("banner");
  const text = bannerTexts[now];
  document.body.classList.toggle("outdated", Boolean(text));
  document.title = (text ? "⚠ " : "") + "Locks" + (locks.size ? " · " + locks.size.toLocaleString("en") : "");
  if (bannerState !== now) { // a screen reader is told of this once, and not of the seconds
    bannerState = now;
    banner.hidden = !text;
    banner.replaceChildren();
    if (text) {
      banner.append(element("strong", "", text));
      if (asOf) {
        const age = element("span", "data-age");
        age.setAttribute("aria-live", "off");
        banner.append(" ", age);
      }
    }
  }
  const age = banner.querySelector(".data-age");
  if (age) setText(age, "What is shown is from " + clockTime(asOf) + ", " + duration(serverNow() - asOf) + " ago.");
  const cut = $("cut");
  cut.hidden = !status.cut;
  if (status.cut) setText(cut, "There are more than these " + status.limit.toLocaleString("en") + " locks. Type how a key begins to find others.");
}

// The search filters what is there. The server is asked as well: where it has more locks than
// it shows, for those whose keys begin so, and otherwise for the one of just this key, which is
// not in the list if it has an answer and nobody has it or waits for it.
const search = $("search");
let findTimer = 0;
let finding = null;

search.addEventListener("input", () => {
  words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  extra = [];
  scroller.scrollTop = 0;
  changed();
  clearTimeout(findTimer);
  if (words.length > 0) findTimer = setTimeout(find, 250);
});

async function find() {
  if (finding) finding.abort();
  const mine = (finding = new AbortController());
  const typed = search.value.trim();
  try {
    if (!["reading", "live", "old"].includes(state())) return;
    const response = await fetch(here + (status.cut ? "?get=find&prefix=" : "?get=look&key=") + encodeURIComponent(typed), { signal: mine.signal });
    if (!response.ok) return;
    const said = await response.json();
    if (finding !== mine || search.value.trim() !== typed) return;
    extra = said.rows;
    for (const lock of extra) readLock(lock);
    changed();
  } catch {
    // The page says that there is no connection; the next turn asks again.
  } finally {
    if (finding === mine && search.value.trim()) {
      clearTimeout(findTimer);
      findTimer = setTimeout(find, 3000);
    }
  }
}

search.addEventListener("keydown", (e) => {
  if (e.key === "ArrowDown") {
    e.preventDefault();
    moveTo(0);
  } else if (e.key === "Escape" && search.value) {
    e.preventDefault();
    search.value = "";
    search.dispatchEvent(new Event("input"));
  }
});

document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.altKey || e.ctrlKey || e.metaKey || document.querySelector("dialog[open]")) return;
  if (e.target.matches("input")) return;
  e.preventDefault();
  search.focus();
  search.select();
});

document.querySelector(".views").addEventListener("click", (e) => {
  const button = e.target.closest("button");
  if (!button) return;
  view = button.dataset.view;
  for (const b of document.querySelectorAll(".views button")) b.setAttribute("aria-pressed", String(b === button));
  scroller.scrollTop = 0;
  changed();
});

// What the codes of a refusal mean.
const reasons = {
  LOCK_BUSY: "busy",
  LOCK_WAIT_TIMEOUT: "waited in vain",
  LOCK_COOLDOWN: "done a moment ago",
  LOCK_QUEUE_FULL: "too many wait",
  LOCK_BACKEND_UNAVAILABLE: "Redis cannot be reached",
  LOCK_LOST: "lost while at work",
  LOCK_KEY_INVALID: "no usable key",
  LOCK_MISUSE: "a mistake in the program",
  LOCK_CLOSED: "shutting down",
  IDEMPOTENCY_KEY_MISSING: "no idempotency key",
  IDEMPOTENCY_KEY_REUSED: "the idempotency key of another request",
  IDEMPOTENCY_IN_PROGRESS: "the first request is at work",
  IDEMPOTENCY_UNCERTAIN: "UNCERTAIN whether the work was done: look for its key",
  IDEMPOTENCY_ANSWER_NOT_KEPT: "done, and its answer was not kept",
};

// why says in words what happened.
function why(p) {
  let text = p.kind === "refused" && !p.reason ? "the caller has left" : reasons[p.reason] || p.reason || "";
  if (p.waited >= 10) text += (p.reason === "LOCK_WAIT_TIMEOUT" ? " for " : ", after ") + duration(p.waited);
  if (p.held) text += (text ? ", " : "") + "held for " + duration(p.held);
  return text;
}

// alike reports whether two incidents that follow one another are shown as one.
const alike = (a, b) => a.kind === b.kind && a.key === b.key && a.reason === b.reason && a.holder === b.holder;

function drawPast() {
  const badge = $("count-past");
  badge.hidden = past.length === 0;
  setText(badge, String(past.length));
  const items = [];
  for (let i = 0; i < past.length;) {
    let n = 1;
    while (i + n < past.length && alike(past[i], past[i + n])) n++;
    items.push(incident(past[i], n));
    i += n;
  }
  if (items.length === 0) items.push(element("li", "none", "Nothing was refused or lost."));
  $("incidents").replaceChildren(...items);
}

function incident(p, times) {
  const item = element("li");
  item.dataset.kind = p.reason === "IDEMPOTENCY_UNCERTAIN" ? "uncertain" : p.kind;
  const key = element("button", "key");
  key.type = "button";
  key.append(element("bdi", "", brief(p.key || p.name || "(no key)")));
  key.title = "Look for this key";
  key.addEventListener("click", () => {
    document.querySelector('[data-view="all"]').click(); // another view may not have it
    search.value = p.key || "";
    search.dispatchEvent(new Event("input"));
    search.focus();
  });
  const text = element("span", "why", why(p));
  if (p.holder) text.append("; held by ", element("bdi", "", brief(p.holder)));
  item.append(element("time", "", clockTime(p.at)), element("span", "kind", p.kind + (times > 1 ? " ×" + times : "")), key, text);
  return item;
}

// drawSettings shows what operators have changed, what is off in front, then the settings that count first, and which work runs without its lock.
function drawSettings() {
  $("settings").hidden = settings.length === 0;
  const off = settings.filter((s) => s.off).map((s) => s.pattern);
  $("off").hidden = off.length === 0;
  // Those that are off come first. So only where all that are told are off may some of the others be off as well.
  const told = settings.filter((s) => s.source).length;
  setText($("off-text"), "OFF: work runs without its lock in this process, by " + first(off, told < settings.length && off.length === told) + ".");
  $("shadow").hidden = shadow.length === 0;
  setText($("shadow-text"), "IN SHADOW: " + named(shadow) + " locks nobody out in this process.");
  $("settings-list").replaceChildren(...settings.map(settingItem));
}

// first lists the first of many patterns, and says how many more there are; atLeast: of those that the page was told.
const first = (patterns, atLeast) => patterns.slice(0, 20).map(brief).join(", ") +
  (patterns.length > 20 ? " and " + (atLeast ? "at least " : "") + (patterns.length - 20) + " more" : "");

// named lists names of policies.
const named = (names) => names.map((n) => brief(n) || "(no name)").join(", ");

function settingItem(s) {
  const item = element("li");
  if (s.off) item.dataset.kind = "off";
  else if (s.refused) item.dataset.kind = "refused";
  const what = element("span", "what");
  what.append(element("bdi", "pattern", brief(s.pattern)), " ", element("b", "", s.off && s.source ? "OFF" : s.change || "cannot be used: what was read before stays"));
  const facts = element("span", "why", s.source ? "from " + (s.source === "redis" ? "Redis" : "a file") : "");
  if (s.since) facts.append(", known since ", clockTime(s.since));
  if (s.ends) facts.append(", until ", clockTime(s.ends));
  if (s.author) facts.append(", by ", element("bdi", "", brief(s.author)));
  if (s.reason) facts.append(": ", element("bdi", "", brief(s.reason)));
  item.append(what, facts);
  if (s.names) item.append(element("span", "why", "applies to " + named(s.names)));
  else if (s.change && s.source && !s.refused) item.append(element("span", "why", "applies to no name that was used so far"));
  for (const text of s.refused || []) item.append(element("span", "why refused", brief(text)));
  return item;
}

// On a wide page the list beside the locks is open.
const wide = matchMedia("(min-width: 78rem)");
const openPast = () => { $("past").open = wide.matches; };
wide.addEventListener("change", openPast);
openPast();
showSort();
drawPast();
connect();
