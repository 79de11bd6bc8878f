"use strict";

// The dialogs: all about one lock, and the questions before a lock is released by force and
// before somebody says what became of uncertain work.

const detail = $("detail");
const confirming = $("confirm");
const resolving = $("resolve");
let detailKey = ""; // of the lock that the dialog is about
let asked = null; // the lock, or its work, as it was when the operator was asked last

// lockBy returns the lock of a key as it is now, or undefined.
function lockBy(key) {
  for (const lock of locks.values()) if (lock.key === key) return lock;
  return extra.find((lock) => lock.key === key);
}

// facts fills a place with what there is to say of a lock.
function facts(place, lock, now) {
  const list = element("dl");
  const say = (term, text, className) => {
    list.append(element("dt", "", term), element("dd", className, text));
  };
  const taken = lock && (lock.holders.length > 0 || lock.waiting > 0);
  if (!taken) say("Holder", "nobody; nobody waits for it either");
  else if (lock.holders.length === 0) say("Holder", "nobody, until the next one has it");
  else say("Mode", modeText(lock));
  if (taken) say("Waiting", lock.waiting === 0 ? "nobody" : String(lock.waiting));
  place.replaceChildren(list);
  if (lock && lock.answer) place.append(answerFacts(lock.answer, now));
  for (const h of (lock ? lock.holders.slice(0, 50) : [])) {
    const card = element("dl", "holder");
    const add = (term, text, className) => {
      const dd = element("dd");
      dd.append(element("bdi", className, text));
      card.append(element("dt", "", term), dd);
    };
    add(h.cools ? "Was held by" : h.handed_on ? "Handed on by" : "Held by", (h.instance ? visible(h.instance) : "a program without lockmw") + (h.own ? " (this process)" : ""), "strong");
    if (h.note) add("Note", visible(h.note));
    if (h.cools) {
      add("Cooling down", "until " + clockTime(h.until) + ", for another " + duration(h.until - now));
      place.append(card);
      continue;
    }
    if (h.handed_on) {
      add("Waits", "for whoever has the ticket, until " + dayTime(h.until) + ", for another " + duration(h.until - now));
      place.append(card);
      continue;
    }
    add("Since", h.since ? clockTime(h.since) + ", for " + duration(now - h.since) : "not known");
    add("TTL left", h.until ? duration(h.until - now) : "there is none: it stays until it is released");
    place.append(card);
  }
  if (lock && lock.holders.length > 50) place.append(element("p", "dim", "and " + (lock.holders.length - 50) + " more"));
}

// waiterFacts is who stands in front of a lock's queue. Of those who wait for a mutex in one process that is the first.
function waiterFacts(lock, now) {
  const list = element("ol", "waiters");
  for (const w of lock.waiters) {
    const li = element("li");
    li.append(element("bdi", "strong", visible(w.instance)), w.own ? " (this process)" : "");
    if (w.note) li.append(element("bdi", "note", visible(w.note)));
    const wants = w.mode === "permits" ? "one of " + w.permits + " permits" : w.mode;
    li.append(element("span", "dim", wants + (w.since ? ", for " + duration(now - w.since) : "")));
    list.append(li);
  }
  const more = lock.waiting - lock.waiters.length;
  if (more > 0) list.append(element("li", "more", "and " + more + " more"));
  return list;
}

// answerFacts is what there is to say of an answer. What is in it is not known here: it may be private.
function answerFacts(a, now) {
  const card = element("dl", "holder");
  const add = (term, text, className) => card.append(element("dt", "", term), element("dd", className, text));
  const since = dayTime(a.since) + ", for " + duration(now - a.since);
  if (a.state === "kept") {
    add("Answer", "kept");
    add("Since", since);
    add("Until", a.until > now ? dayTime(a.until) + ", for another " + duration(a.until - now) : "it is for calls that came before it was there");
    add("Size", size(a.bytes));
    return card;
  }
  if (a.state === "uncertain") add("Answer", "UNCERTAIN: nobody knows whether the work was done", "alarm");
  else add("Answer", "none yet: work is in progress");
  add("Since", since);
  add("Work", a.work);
  return card;
}

const isUncertain = (lock) => Boolean(lock.answer) && lock.answer.state === "uncertain";

function showDetail(lock) {
  detailKey = lock.key;
  setText($("detail-key"), visible(lock.key));
  if (!detail.open) detail.showModal();
  drawDetail();
}

function drawDetail() {
  if (!detail.open) return;
  const lock = lockBy(detailKey);
  const place = $("detail-facts");
  facts(place, lock, serverNow());
  if (lock && lock.waiters.length > 0) place.append(element("p", "eyebrow", "Who waits"), waiterFacts(lock, serverNow()));
  $("detail-release").hidden = !mayRelease || !lock || lock.holders.length === 0;
  $("detail-resolve").hidden = !mayResolve || !lock || !isUncertain(lock);
}

$("detail-release").addEventListener("click", () => {
  const lock = lockBy(detailKey);
  detail.close();
  if (lock) askToRelease(lock);
});

$("detail-resolve").addEventListener("click", () => {
  const lock = lockBy(detailKey);
  detail.close();
  if (lock && isUncertain(lock)) askToResolve(lock);
});

function warning(holders) {
  if (holders.every((h) => h.cools)) return "Its work is over. Once the key is released, the same may be done again at once.";
  if (holders.every((h) => h.handed_on)) return "Nobody is at work at the moment. Whoever comes with the ticket will be told that it is spent.";
  const many = holders.length > 1;
  const learns = many ? "The holders work on until they learn" : "The holder works on until it learns";
  const until = many ? "with their next renewals" : "with its next renewal";
  if (!holders.some((h) => h.instance)) {
    return "The holder is a program without lockmw: it may work on without ever learning that the lock is gone, beside the next holder.";
  }
  return learns + " that the lock is lost: at once, or " + until + ". Meanwhile the next holder may be at work too: only what checks fences is safe from that.";
}

// askToRelease shows the lock as it is now. That is what the operator says yes to.
function askToRelease(lock) {
  asked = { key: lock.key, holders: lock.holders.map(({ instance, note, since, cools, handed_on }) => ({ instance, note, since, cools, handed_on })) };
  const several = lock.holders.length > 1;
  setText($("confirm-title"), coolsDown(lock) ? "End the cool-down of this key?" : isHandedOn(lock) ? "Take this lock from its ticket?" : several ? "Take this lock from all " + lock.holders.length + " holders?" : "Take this lock from its holder?");
  setText($("confirm-warning"), warning(lock.holders));
  setText($("confirm-key"), visible(lock.key));
  facts($("confirm-facts"), lock, serverNow());
  ask(confirming);
}

// askToResolve shows the work that is uncertain. What the operator says is about that work alone.
function askToResolve(lock) {
  asked = { key: lock.key, work: lock.answer.work };
  setText($("resolve-key"), visible(lock.key));
  $("resolve-facts").replaceChildren(answerFacts(lock.answer, serverNow()));
  ask(resolving);
}

// ask opens a dialog with a question that nothing has come of yet.
function ask(dialog) {
  setText(dialog.querySelector(".said"), "");
  dialog.querySelector(".reason input").value = "";
  enable(dialog, true);
  if (!dialog.open) dialog.showModal();
}

function enable(dialog, yes) {
  for (const button of dialog.querySelectorAll("button.danger")) button.disabled = !yes;
}

// A click beside a dialog closes it.
for (const dialog of [detail, confirming, resolving]) {
  dialog.addEventListener("mousedown", (e) => {
    if (e.target === dialog) dialog.close();
  });
}

$("confirm-release").addEventListener("click", () => carryOut(confirming, asked, "Released", "the lock may be released or not"));

for (const button of resolving.querySelectorAll("button.danger")) {
  button.addEventListener("click", async () => {
    await carryOut(resolving, { ...asked, as: button.dataset.as }, "Resolved", "the server may have heard of this or not");
    if (words.length > 0) find(); // the search may be what shows this lock
  });
}

// carryOut has done what the operator has said in a dialog, and shows there what came of it.
async function carryOut(dialog, wish, done, doubt) {
  const about = asked;
  wish = { ...wish, reason: dialog.querySelector(".reason input").value };
  enable(dialog, false);
  setText(dialog.querySelector(".said"), "");
  const said = await send(wish, doubt);
  if (asked !== about || !dialog.open) { // the dialog was closed meanwhile
    toast(visible(wish.key) + ": " + said.text);
    return;
  }
  if (said.ok) {
    dialog.close();
    toast(done + " " + brief(wish.key));
    return;
  }
  setText(dialog.querySelector(".said"), said.text);
  enable(dialog, !said.final);
}

// send asks the server, and returns what it said. What is final may not be asked again.
async function send(wish, doubt) {
  try {
    const response = await fetch(here + location.search, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Lockadmin-Token": document.querySelector('meta[name="lockadmin-token"]').content },
      body: JSON.stringify(wish),
      signal: AbortSignal.timeout(10_000),
    });
    const said = await response.json();
    return { ok: response.ok, text: said.text, final: response.status < 500 };
  } catch {
    return { ok: false, text: "There was no answer: " + doubt + ".", final: false };
  }
}

let toastTimer = 0;
function toast(text) {
  const place = $("toast");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => place.classList.remove("shown"), 6000);
}
