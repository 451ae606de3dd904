// Keeps the page up to date. Without this script the page loads again every ten seconds.
"use strict";

const main = document.getElementById("main");
const live = document.getElementById("live");
const mode = document.getElementById("mode");
const said = document.getElementById("said");

// Uses the same words as the server.
function ago(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} days ago`;
}

// ahead is how far this machine's clock is ahead of the keeper's, in milliseconds.
let ahead = 0;

function tick() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const passed = Date.now() - ahead - Date.parse(time.dateTime);
    const text = ago(Math.max(0, Math.floor(passed / 1000)));
    if (time.textContent !== text) time.textContent = text;
  }
}

// swap replaces the page with a newer one. It keeps open details, form values, scroll positions and
// focus.
function swap(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const next = page.getElementById("main");
  if (!next) return;
  for (const open of main.querySelectorAll("details[open][id]")) {
    const same = next.querySelector(`#${CSS.escape(open.id)}`);
    if (same) same.open = true;
  }
  for (const field of main.querySelectorAll("input[name], select[name]")) {
    const same = next.querySelector(`[name="${CSS.escape(field.name)}"]`);
    if (same && field.type !== "hidden") same.value = field.value;
  }
  const path = placeOf(document.activeElement);
  const caret = main.contains(document.activeElement) && document.activeElement.type === "search"
    ? [document.activeElement.selectionStart, document.activeElement.selectionEnd] : null;
  const scrolled = [...main.querySelectorAll(".scroll")].map((s) => [s.scrollLeft, s.scrollTop]);
  main.replaceChildren(...next.childNodes);
  main.dataset.version = next.dataset.version;
  document.title = page.title;
  mode.textContent = page.getElementById("mode").textContent;
  mode.hidden = mode.textContent === "";
  say();
  [...main.querySelectorAll(".scroll")].forEach((s, i) => {
    [s.scrollLeft, s.scrollTop] = scrolled[i] || [0, 0];
  });
  const focused = path && elementAt(path);
  if (focused) focused.focus({ preventScroll: true });
  if (focused?.type === "search" && caret !== null) focused.setSelectionRange(...caret);
  copyable();
  tick();
}

// say has screen readers announce the headline when it changes. Nothing else is announced.
let told = main.querySelector("h1")?.textContent;

function say() {
  const text = main.querySelector("h1")?.textContent;
  if (text !== told) said.textContent = told = text;
}

// placeOf and elementAt describe the position of an element below main: by an id, or by its index
// among the children.
function placeOf(element) {
  if (!element || element === main || !main.contains(element)) return null;
  const path = [];
  for (let at = element; at !== main; at = at.parentElement) {
    if (at.id) { path.unshift(at.id); return path; }
    path.unshift([...at.parentElement.children].indexOf(at));
  }
  return path;
}

function elementAt(path) {
  let at = main;
  for (const step of path) {
    at = typeof step === "string" ? document.getElementById(step) : at && at.children[step];
  }
  return at;
}

// A click is lost if the page is swapped between press and release. So a newer page waits until the
// click has been handled, or two seconds: not every release is reported.
let pressed = 0;
let newer = null;

function release() {
  clearTimeout(pressed);
  pressed = 0;
  if (newer !== null) swap(newer);
  newer = null;
}

addEventListener("pointerdown", () => {
  clearTimeout(pressed);
  pressed = setTimeout(release, 2000);
});
addEventListener("pointerup", () => setTimeout(release));
addEventListener("pointercancel", release);

// A form that only selects does so at once. The address of the page keeps the selection.
let selecting = 0;
let wanted = null; // the address that a form asks for

function select(event) {
  const form = event.target.form ?? event.target;
  if (form.getAttribute("role") !== "search") return;
  if (event.type === "submit") event.preventDefault();
  clearTimeout(selecting);
  selecting = setTimeout(async () => {
    const fields = [...new FormData(form)].filter(([, value]) => value !== "");
    const query = new URLSearchParams(fields).toString();
    wanted = form.getAttribute("action") + (query && `?${query}`);
    await load();
    said.textContent = main.querySelector("[data-found]")?.textContent ?? "";
  }, event.type === "input" ? 200 : 0);
}

main.addEventListener("input", select);
main.addEventListener("submit", select);

let loading = false;
let again = false;

async function load() {
  if (loading) { again = true; return; }
  loading = true;
  const at = wanted ?? location.href;
  try {
    const answer = await fetch(at, { headers: { Accept: "text/html" } });
    const text = await answer.text(); // an error page too: the cluster may be gone
    if (wanted === at) wanted = null;
    if (wanted === null) history.replaceState(null, "", at);
    if (pressed) newer = text; else swap(text);
  } catch { /* the stream reports when the keeper is back */ }
  loading = false;
  if (again) { again = false; load(); }
}

let stream = null;

// listen opens the stream on which the keeper reports changes. A hidden page closes it: browsers
// allow few connections to one server.
function listen() {
  if (stream || document.hidden) return;
  stream = new EventSource(`/live?cluster=${encodeURIComponent(main.dataset.cluster)}`);
  stream.addEventListener("board", (message) => {
    const board = JSON.parse(message.data);
    ahead = Date.now() - Date.parse(board.now);
    connected(true);
    const time = document.querySelector("[data-checked] time");
    if (time && board.checked) time.dateTime = board.checked;
    if (String(board.version) !== main.dataset.version && main.dataset.version !== "0") load();
    tick();
  });
  stream.addEventListener("error", () => {
    connected(false);
    // After a refusal, such as a proxy's while the keeper starts, browsers do not try again.
    if (stream && stream.readyState === EventSource.CLOSED) {
      hush();
      setTimeout(listen, 5000);
    }
  });
}

function hush() {
  if (stream) stream.close();
  stream = null;
}

// connected shows whether the page is up to date. Without a connection the last state stays,
// without its colors.
function connected(yes) {
  live.hidden = false;
  const lost = document.body.classList;
  if (lost.contains("lost") === yes) said.textContent = yes ? told : "no connection to the keeper";
  lost.toggle("lost", !yes);
  live.querySelector(".live-text").textContent = yes ? "live" : "no connection";
}

// copyable gives each command a button that copies it.
function copyable() {
  if (!navigator.clipboard) return; // the page was loaded without TLS from another machine
  for (const command of main.querySelectorAll("pre.command")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    command.append(button);
  }
}

copyable();
setInterval(tick, 1000);
tick();
listen();
document.addEventListener("visibilitychange", () => {
  if (document.hidden) hush(); else listen();
});
addEventListener("pagehide", hush);
addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
