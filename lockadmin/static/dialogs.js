"use strict";

// The dialogs: all about one lock, and the question before a lock is released by force.

const detail = $("detail");
const confirming = $("confirm");
let detailKey = ""; // of the lock that the dialog is about
let asked = null; // the lock as it was when the operator was asked last

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
  if (!lock || lock.holders.length === 0) say("Holder", lock ? "nobody, until the next one has it" : "nobody; nobody waits for it either");
  else say("Mode", modeText(lock));
  if (lock) say("Waiting", lock.waiting === 0 ? "nobody" : String(lock.waiting));
  place.replaceChildren(list);
  for (const h of (lock ? lock.holders.slice(0, 50) : [])) {
    const card = element("dl", "holder");
    const add = (term, text, className) => {
      const dd = element("dd");
      dd.append(element("bdi", className, text));
      card.append(element("dt", "", term), dd);
    };
    add(h.cools ? "Was held by" : "Held by", (h.instance ? visible(h.instance) : "a program without lockmw") + (h.own ? " (this process)" : ""), "strong");
    if (h.note) add("Note", visible(h.note));
    if (h.cools) {
      add("Cooling down", "until " + clockTime(h.until) + ", for another " + duration(h.until - now));
      place.append(card);
      continue;
    }
    add("Since", h.since ? clockTime(h.since) + ", for " + duration(now - h.since) : "not known");
    add("TTL left", h.until ? duration(h.until - now) : "there is none: it stays until it is released");
    place.append(card);
  }
  if (lock && lock.holders.length > 50) place.append(element("p", "dim", "and " + (lock.holders.length - 50) + " more"));
}

function showDetail(lock) {
  detailKey = lock.key;
  setText($("detail-key"), visible(lock.key));
  if (!detail.open) detail.showModal();
  drawDetail();
}

function drawDetail() {
  if (!detail.open) return;
  const lock = lockBy(detailKey);
  facts($("detail-facts"), lock, serverNow());
  $("detail-release").hidden = !mayRelease || !lock || lock.holders.length === 0;
}

$("detail-release").addEventListener("click", () => {
  const lock = lockBy(detailKey);
  detail.close();
  if (lock) askToRelease(lock);
});

function warning(holders) {
  if (holders.every((h) => h.cools)) return "Its work is over. Once the key is released, the same may be done again at once.";
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
  asked = { key: lock.key, holders: lock.holders.map(({ instance, note, since, cools }) => ({ instance, note, since, cools })) };
  const several = lock.holders.length > 1;
  setText($("confirm-title"), coolsDown(lock) ? "End the cool-down of this key?" : several ? "Take this lock from all " + lock.holders.length + " holders?" : "Take this lock from its holder?");
  setText($("confirm-warning"), warning(lock.holders));
  setText($("confirm-key"), visible(lock.key));
  facts($("confirm-facts"), lock, serverNow());
  setText($("confirm-said"), "");
  $("confirm-release").disabled = false;
  if (!confirming.open) confirming.showModal();
}

// A click beside a dialog closes it.
for (const dialog of [detail, confirming]) {
  dialog.addEventListener("mousedown", (e) => {
    if (e.target === dialog) dialog.close();
  });
}

$("confirm-release").addEventListener("click", async () => {
  const wish = asked;
  $("confirm-release").disabled = true;
  setText($("confirm-said"), "");
  const said = await release(wish);
  if (asked !== wish || !confirming.open) { // the dialog was closed meanwhile
    toast(visible(wish.key) + ": " + said.text);
    return;
  }
  if (said.ok) {
    confirming.close();
    toast("Released " + brief(wish.key));
    return;
  }
  setText($("confirm-said"), said.text);
  $("confirm-release").disabled = said.final;
});

// release asks the server, and returns what it said. What is final may not be asked again.
async function release(wish) {
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
    return { ok: false, text: "There was no answer: the lock may be released or not.", final: false };
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
