// The page: settings in, one run out. The address holds the settings, so that a link is a run.
"use strict";

const at = (id) => document.getElementById(id);
const NUMBERS = [...document.querySelectorAll("#sliders input")].map((input) => input.id);
const SWITCHES = ["fencing", "attempt_keys"];
const CHOICES = ["fault", "moment"];
const FIELDS = ["seed", ...CHOICES, ...NUMBERS, ...SWITCHES];
const PRESETS = [...document.querySelectorAll("[name=preset]")];
const WAIT_MS = 250;

let token = "";
let asked = 0;
let waiting = 0;
let playing = 0;
let history_ = null;
let events = [];
let picture = null;

// --- settings ---

const isOn = (value) => value === true || value === "on";

function read() {
  const settings = { seed: at("seed").value || "0" };
  for (const name of [...CHOICES, ...NUMBERS]) settings[name] = at(name).value;
  for (const name of SWITCHES) settings[name] = at(name).checked ? "on" : "off";
  return settings;
}

function write(settings) {
  for (const name of FIELDS) {
    if (!(name in settings)) continue;
    if (SWITCHES.includes(name)) at(name).checked = isOn(settings[name]);
    else at(name).value = settings[name];
  }
  settle();
}

// What follows from the settings on the page itself.
function settle() {
  for (const name of NUMBERS) {
    const text = `${Number(at(name).value)} s`;
    at(name).closest(".field").querySelector("output").value = text;
    at(name).setAttribute("aria-valuetext", text);
  }
  const nothing = at("fault").value === "none";
  at("moment").disabled = at("for_s").disabled = nothing;
  at("at_s").disabled = nothing || at("moment").value !== "time";
  at("fencing").disabled = at("attempt_keys").checked;
  const told = read();
  for (const radio of PRESETS) {
    const its = JSON.parse(radio.dataset.settings);
    radio.checked = FIELDS.every((name) => (SWITCHES.includes(name) ? isOn(its[name]) === isOn(told[name]) : String(its[name]) === told[name]));
  }
}

function fromAddress() {
  const query = new URLSearchParams(location.search);
  const named = PRESETS.find((radio) => radio.value === query.get("preset")) ?? PRESETS[0];
  write({ ...JSON.parse(named.dataset.settings), ...Object.fromEntries(query) });
}

// --- a run ---

function soon() {
  settle();
  clearTimeout(waiting);
  waiting = setTimeout(run, WAIT_MS);
}

async function run() {
  const query = new URLSearchParams(read()).toString();
  const mine = ++asked;
  document.body.classList.add("working");
  history.replaceState(null, "", `?${query}${location.hash}`);
  let reply, body;
  try {
    reply = await fetch(`/v1/lab?${query}`, token ? { headers: { authorization: `Bearer ${token}` } } : {});
    body = await reply.json();
  } catch {
    reply = null;
    body = { detail: "The server does not answer. Is planrun still running?" };
  }
  if (mine !== asked) return;
  document.body.classList.remove("working");
  if (reply?.ok) {
    entered();
    show(body);
  } else fail(reply?.status === 401, body.detail);
}

// There is no run of these settings: none of others stands there in its place.
function fail(isLocked, detail) {
  stop();
  document.body.classList.add("failed");
  const isNew = at("failure").hidden || at("door").hidden;
  at("failure").hidden = false;
  at("door").hidden = !isLocked;
  at("again").hidden = isLocked;
  const why = token ? "This server does not know that token." : "This server asks for a token. Any of its tokens will do.";
  at("problem").textContent = isLocked ? why : detail;
  if (isLocked && (isNew || at("door").contains(document.activeElement))) {
    at("token").focus();
    at("token").select();
  }
}

function entered() {
  document.body.classList.remove("failed");
  if (at("failure").contains(document.activeElement)) at("sentence").focus();
  at("failure").hidden = true;
}

function show(history) {
  stop();
  history_ = history;
  let number = 0;
  events = history.points.filter((point, i, all) => point.what !== "renew" && !(point.what === "unheard" && all.slice(0, i).some((one) => one.what === "unheard")));
  for (const point of events) point.number = point.is_minor ? 0 : ++number;
  at("sentence").textContent = history.sentence;
  at("sentence").dataset.tone = history.tone;
  tally(history.tally);
  at("store-note").replaceChildren(...storeNote(history), ` ${placeNote(history)}`);
  at("link").href = `/lab?${history.link}`;
  at("link").textContent = `${location.host}/lab?${history.link}`;
  at("command").textContent = history.command;
  at("events").replaceChildren(...events.map(line));
  at("step").max = events.length;
  at("step").value = events.length;
  draw();
}

function tally(counts) {
  const words = {
    starts: ["start", "starts"], files: ["file stored", "files stored"], overwritten: ["overwritten", "overwritten"],
    refused: ["refused", "refused"], answers: ["answer sent", "answers sent"],
  };
  at("tally").replaceChildren(...Object.entries(words).map(([name, [one, many]]) => {
    const item = document.createElement("li");
    const count = document.createElement("b");
    count.textContent = counts[name];
    item.append(count, ` ${counts[name] === 1 ? one : many}`);
    if (name === "overwritten" && counts[name]) item.className = "harm";
    return item;
  }));
}

function storeNote(history) {
  if (!history.is_lab_store) return ["The store is planrun’s: each attempt has a key of its own, and the ledger’s row says which one counts."];
  const mark = document.createElement("b");
  mark.textContent = "Lab store, not planrun’s:";
  return [mark, ` one key for the job, and ${history.settings.fencing ? "it refuses a token older than the newest it has seen" : "it takes whatever comes"}.`];
}

function placeNote(history) {
  return history.is_fleet
    ? "This is a fleet: A, B and the orchestrator are machines apart, and the ledger waits 2 s longer than a holder trusts itself."
    : "This is one box: A and B share the ledger’s file, and a dead worker is proven dead by the lock that it let go.";
}

function line(point, index) {
  const item = document.createElement("li");
  item.className = `${point.lane} ${point.tone}${point.is_minor ? " minor" : ""}`;
  item.dataset.event = index;
  const parts = { n: point.number || "", at: seconds(point.at_ms), who: laneName(point.lane, history_.is_lab_store), says: point.says };
  for (const [name, text] of Object.entries(parts)) {
    const part = document.createElement("span");
    part.className = name;
    part.textContent = text;
    item.append(part);
  }
  item.firstChild.setAttribute("aria-hidden", "true");
  return item;
}

function draw() {
  if (!history_) return;
  picture = new Picture(history_, events, Math.round(at("picture").clientWidth));
  at("picture").replaceChildren(picture.element);
  step();
}

// --- stepping through it ---

function step() {
  const index = Number(at("step").value);
  const point = events[index];
  at("step").setAttribute("aria-valuetext", point ? `${seconds(point.at_ms)}, ${laneName(point.lane, history_.is_lab_store)}: ${point.says}` : "all of it");
  picture.show(index);
  for (const item of at("events").children) {
    const own = Number(item.dataset.event);
    item.classList.toggle("on", own === index);
    item.classList.toggle("later", own > index);
  }
}

function go(index) {
  at("step").value = index;
  step();
}

function stop() {
  clearTimeout(playing);
  playing = 0;
  at("play").textContent = "Play";
}

function play() {
  if (playing) return stop();
  at("play").textContent = "Pause";
  const from = Number(at("step").value);
  next(from >= events.length ? 0 : from);
}

function next(index) {
  go(index);
  if (index >= events.length) return stop();
  const gap = (events[index + 1]?.at_ms ?? 0) - events[index].at_ms;
  playing = setTimeout(next, Math.min(1600, Math.max(700, gap / 4)), index + 1);
}

// --- the map ---

function select(name) {
  let found = false;
  for (const about of document.querySelectorAll(".about")) {
    about.hidden = about.id !== `map-${name}`;
    found ||= !about.hidden;
  }
  at("about-none").hidden = found;
  for (const part of document.querySelectorAll(".part")) {
    if (part.dataset.part === name) part.setAttribute("aria-current", "true");
    else part.removeAttribute("aria-current");
  }
  for (const hop of document.querySelectorAll(".hop")) hop.classList.toggle("on", hop.dataset.ends.split(" ").includes(name));
}

for (const part of document.querySelectorAll(".part")) {
  part.addEventListener("click", (event) => {
    event.preventDefault();
    select(part.dataset.part);
    history.replaceState(null, "", `${location.search}#map-${part.dataset.part}`);
  });
}

// --- all together ---

for (const place of ["settings", "switches"]) at(place).addEventListener("input", soon);
at("settings").addEventListener("submit", (event) => event.preventDefault());
for (const radio of PRESETS) {
  radio.addEventListener("change", () => {
    write(JSON.parse(radio.dataset.settings));
    soon();
  });
}
at("step").addEventListener("input", () => { stop(); step(); });
at("play").addEventListener("click", play);
for (const place of ["picture", "events"]) {
  at(place).addEventListener("click", (event) => {
    const marked = event.target.closest("[data-event]");
    if (marked) { stop(); go(Number(marked.dataset.event)); }
  });
}
at("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(at("link").href);
    at("copy").textContent = "Copied";
  } catch {
    at("copy").textContent = "Copy it by hand";
  }
  setTimeout(() => { at("copy").textContent = "Copy"; }, 2000);
});
at("again").addEventListener("click", run);
at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  run();
});
let drawnAt = 0;
new ResizeObserver(() => {
  const width = at("picture").clientWidth;
  if (width && width !== drawnAt) { drawnAt = width; draw(); }
}).observe(at("picture"));

select(location.hash.replace("#map-", ""));
fromAddress();
run();
