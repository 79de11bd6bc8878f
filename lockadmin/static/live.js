"use strict";

// What the server tells: every lock that is held or waited for, how current that is, and
// what was refused or lost of late. The other scripts read it from here.

// The page's own address. A script may not ask for one with a name and a password, which
// the page's may have, and relative ones with it.
const here = location.origin + location.pathname;

const locks = new Map(); // id -> lock, as the server writes it, with the fields that readLock adds
let past = [];
let settings = []; // the live settings of this process
let shadow = []; // the names whose policies are only tried in this process
let status = { state: "reading", every: 1000, limit: 0, cut: false };
let asOf = 0; // by the server's clock, what is shown is from then; 0: nothing is known yet

// How the connection to the server is: connecting, open or broken. While it is not open
// nothing is known of what has happened since asOf.
let connection = "connecting";

// Called when something has changed: what is "locks", "past", "settings" or "state".
let onNews = () => {};

// The server's clock, in milliseconds: what this computer's clock says does not matter.
let clockOffset = Date.now() - performance.now();
const serverNow = () => performance.now() + clockOffset;

let source = null;
let heard = 0; // when the server last said something, by performance.now
let fresh = true; // nothing was heard on this connection yet
let retryIn = 1000;
let retryTimer = 0;
let incoming = null; // after a new connection: what will take the place of locks
let before = new Map(); // meanwhile: key -> lock, as it was shown before

const silentAfter = 12_000; // the server says something every three seconds

function connect() {
  clearTimeout(retryTimer);
  if (source) source.close();
  heard = performance.now();
  fresh = true;
  source = new EventSource("?get=events");
  source.onmessage = (e) => {
    heard = performance.now();
    retryIn = 1000;
    connection = "open";
    hear(JSON.parse(e.data));
  };
  source.onerror = disconnect;
}

// An EventSource gives up for good where it gets an answer such as 502. This does not.
function disconnect() {
  if (source) source.close();
  source = null;
  incoming = null;
  if (connection !== "broken") {
    connection = "broken";
    onNews("state");
  }
  clearTimeout(retryTimer);
  if (document.visibilityState === "visible") {
    retryTimer = setTimeout(connect, retryIn);
    retryIn = Math.min(2 * retryIn, 10_000);
  }
}

setInterval(() => {
  if (source && performance.now() - heard > silentAfter) disconnect();
}, 1000);

// A page that nobody sees costs Redis nothing, and no connection of the browser's six.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") {
    retryIn = 1000;
    if (!source) connect();
  } else if (source) {
    disconnect();
  }
});

function hear(m) {
  clockOffset = m.now - performance.now();
  if (m.reset) {
    // What is there stays on the page until all locks have been read.
    incoming = locks.size > 0 ? new Map() : null;
    before = new Map([...locks.values()].map((lock) => [lock.key, lock]));
  }
  const to = incoming || locks;
  for (const lock of m.rows || []) {
    readLock(lock, to.get(lock.id) || before.get(lock.key));
    to.set(lock.id, lock);
  }
  for (const [id, ...ends] of m.until || []) renew(to.get(id), ends);
  for (const id of m.gone || []) to.delete(id);
  status = m.status;
  if (status.asOf && !m.more) {
    if (incoming) {
      locks.clear();
      for (const [id, lock] of incoming) locks.set(id, lock);
    }
    incoming = null;
    before = new Map();
    asOf = status.asOf;
  }
  if (m.past) {
    past = m.past;
    onNews("past");
  }
  if (fresh || m.settings || m.shadow) { // a new connection tells of either only if there are any
    settings = m.settings || (fresh ? [] : settings);
    shadow = m.shadow || (fresh ? [] : shadow);
    fresh = false;
    onNews("settings");
  }
  if (m.reset || m.rows || m.until || m.gone) onNews("locks");
  onNews("state");
}

// readLock adds to a lock what the page needs of it. was is what was known of it before.
function readLock(lock, was) {
  lock.waiting ||= 0;
  lock.holders ||= [];
  lock.waiters ||= [];
  lock.holders.forEach((h) => {
    const had = was && was.holders.find((b) => b.instance === h.instance && b.note === h.note && Math.abs((b.since || 0) - (h.since || 0)) < 500);
    // The whole TTL is not told; the most that was left of it is not much less.
    h.most = Math.max(had ? had.most : 0, (h.until || 0) - serverNow());
  });
  lock.text = null; // for the search, when it is first needed
  settle(lock);
}

function renew(lock, ends) {
  if (!lock) return;
  lock.holders.forEach((h, i) => {
    h.until = ends[i];
    h.most = Math.max(h.most, h.until - serverNow());
  });
  settle(lock);
}

// settle finds what the list shows of several holders: the first, and the end that is next.
function settle(lock) {
  const first = lock.holders[0];
  lock.since = (first && first.since) || 0;
  lock.until = 0;
  for (const h of lock.holders) {
    if (h.until && (!lock.until || h.until < lock.until)) {
      lock.until = h.until;
      lock.most = h.most;
    }
  }
}

// late reports whether a lock is not renewed as one of lockmw is, every third of its TTL.
function late(lock, now) {
  return lock.holders.some((h) => !h.until || (h.until - now) / h.most < 0.5);
}

// searchText is where the search looks.
function searchText(lock) {
  if (lock.text === null) {
    const words = [lock.key];
    for (const h of lock.holders) words.push(h.instance || "", h.note || "");
    lock.text = words.join("\n").toLowerCase();
  }
  return lock.text;
}
