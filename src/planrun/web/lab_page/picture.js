// The picture of one run: four lanes over virtual time. It draws what it is given, and knows no rule of the protocol.
"use strict";

const LANES = ["a", "b", "ledger", "store"];
const BAR = { top: 24, height: 22 };
const MARKS_Y = 66;
const LANE_HEIGHT = 84;
const MARK_RADIUS = 11;
const ENDS_AT_A_WALL = ["refuse", "lost"];

const svg = (name, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};
const seconds = (ms) => `${+(ms / 1000).toFixed(1)} s`;
const laneName = (lane, isLabStore) =>
  ({ a: "Worker A", b: "Worker B", ledger: "Ledger", store: isLabStore ? "Lab store" : "Store" })[lane];

class Picture {
  // events: the points that are listed, in order; each gets its number there.
  constructor(history, events, width) {
    this.history = history;
    this.events = events;
    this.width = width;
    this.isNarrow = width < 620;
    this.gutter = this.isNarrow ? 0 : 86;
    this.gap = this.isNarrow ? 26 : 8;
    this.element = this.draw();
  }

  x(ms) {
    return this.gutter + 8 + ((this.width - this.gutter - 22) * ms) / this.history.until_ms;
  }

  y(lane) {
    return (this.isNarrow ? 22 : 4) + LANES.indexOf(lane) * (LANE_HEIGHT + this.gap);
  }

  get bottom() {
    return this.y("store") + LANE_HEIGHT;
  }

  draw() {
    const all = svg("svg", {
      viewBox: `0 0 ${this.width} ${this.bottom + 34}`, width: this.width, height: this.bottom + 34,
      role: "img", "aria-label": `Timeline of worker A, worker B, ledger and store. ${this.history.sentence}`,
    });
    all.append(...this.lanes(), ...this.axis());
    for (const span of this.history.spans.filter((one) => this.isFault(one))) all.append(...this.fault(span));
    for (const span of this.history.spans.filter((one) => !this.isFault(one))) all.append(...this.bar(span));
    for (const point of this.history.points) all.append(...this.arrow(point));
    for (const lane of LANES) all.append(...this.ticks(lane), ...this.marks(lane));
    this.now = svg("line", { class: "now", y1: 0, y2: this.bottom + 6, visibility: "hidden" });
    all.append(this.now);
    return all;
  }

  lanes() {
    return LANES.flatMap((lane) => {
      const name = laneName(lane, this.history.is_lab_store);
      const place = this.isNarrow ? { x: 4, y: this.y(lane) - 7 } : { x: 2, y: this.y(lane) + BAR.top + 16 };
      const text = svg("text", { ...place, "font-weight": 600 }, name);
      const left = this.gutter;
      return [svg("rect", { class: "lane", x: left, y: this.y(lane), width: this.width - left, height: LANE_HEIGHT, rx: 10 }), text];
    });
  }

  axis() {
    const step = [500, 1000, 2000, 5000, 10000, 20000].find((one) => this.x(one) - this.x(0) > (this.isNarrow ? 44 : 56)) ?? 30000;
    const found = [];
    for (let ms = 0; ms <= this.history.until_ms; ms += step) {
      found.push(svg("line", { class: "grid", x1: this.x(ms), x2: this.x(ms), y1: this.y("a"), y2: this.bottom + 6 }));
      found.push(svg("text", { class: "quiet", x: this.x(ms), y: this.bottom + 24, "text-anchor": ms ? "middle" : "start" }, seconds(ms)));
    }
    return found;
  }

  isFault(span) {
    return ["frozen", "down", "cut"].includes(span.bar);
  }

  fault(span) {
    const [left, right] = [this.x(span.from_ms), this.x(span.to_ms)];
    const names = { frozen: "stands still", down: "is down", cut: "is cut off" };
    const band = svg("rect", { class: `fault ${span.bar}`, x: left, y: this.y(span.lane) + 3, width: Math.max(2, right - left), height: LANE_HEIGHT - 6 });
    const name = this.label(names[span.bar], left + 6, right, this.y(span.lane) + 18, "fault-name");
    return name ? [band, name] : [band];
  }

  bar(span) {
    const [left, right] = [this.x(span.from_ms), this.x(span.to_ms)];
    const who = span.by.toUpperCase();
    const words = {
      holds: [`${who} holds the lease, token ${span.token}`, `${who} holds ${span.token}`, `${span.token}`],
      runs: ["runs the job", "runs"],
      uploads: ["stores its file", "stores"],
      reads: [`a reader gets ${who}’s bytes (${span.token})`, `${who}’s bytes`, `${who}`],
    }[span.bar];
    const isHarm = span.bar === "reads" && this.history.points.some((one) => one.what === "overwrite" && one.at_ms === span.from_ms);
    const y = this.y(span.lane) + BAR.top;
    const found = [svg("rect", { class: `bar ${span.bar} ${isHarm ? "harm" : span.by}`, x: left, y, width: Math.max(2, right - left), height: BAR.height })];
    for (const text of words) {
      const label = this.label(text, left + 6, right, y + 16, "");
      if (label) return [...found, label];
    }
    return found;
  }

  // A text, if it has room.
  label(text, left, right, y, name) {
    return text.length * 6.9 <= right - left ? svg("text", { class: name, x: left, y }, text) : null;
  }

  arrow(point) {
    const isUp = point.what === "grant";
    const other = isUp ? point.lane : point.by;
    const end = isUp ? "ledger" : point.lane;
    if (!other || !["ledger", "store"].includes(end) || ["expire", "proof"].includes(point.what)) return [];
    const x = this.x(point.at_ms) + (end === "store" ? 4 : isUp ? 0 : -4);
    const hitsWall = ENDS_AT_A_WALL.includes(point.what);
    const [from, to] = [this.y(other) + BAR.top + BAR.height, this.y(end) + BAR.top - (hitsWall ? 12 : 2)];
    const tone = point.tone === "harm" || point.tone === "guard" ? point.tone : "";
    const data = { "data-event": this.events.indexOf(point) };
    const found = [svg("path", { class: `arrow ${tone}`, d: isUp ? `M${x} ${to} L${x} ${from + 2}` : `M${x} ${from} L${x} ${to}`, "marker-end": "url(#arrow)", ...data })];
    if (hitsWall) found.push(svg("path", { class: "stop", d: `M${x - 8} ${to + 5} h16`, ...data }));
    return found;
  }

  ticks(lane) {
    const y = this.y(lane) + BAR.top + BAR.height;
    return this.history.points
      .filter((point) => point.lane === lane && point.is_minor)
      .map((point) => svg("line", { class: "tick", x1: this.x(point.at_ms), x2: this.x(point.at_ms), y1: y - 6, y2: y + 4 }));
  }

  // Numbers in a row below the bars; those of one moment stand beside each other, each with a line to its moment.
  marks(lane) {
    const apart = 2 * MARK_RADIUS + 3;
    const points = this.events.filter((point) => point.lane === lane && !point.is_minor);
    const at = points.map((point) => this.x(point.at_ms));
    for (let i = 1; i < at.length; i++) at[i] = Math.max(at[i], at[i - 1] + apart);
    let most = this.width - MARK_RADIUS - 3;
    for (let i = at.length - 1; i >= 0; i--) { at[i] = Math.min(at[i], most); most = at[i] - apart; }
    return points.flatMap((point, i) => {
      const y = this.y(lane) + MARKS_Y;
      const event = this.events.indexOf(point);
      const x = Math.max(at[i], MARK_RADIUS + this.gutter + 3);
      const mark = svg("g", { class: `mark ${point.tone}`, "data-event": event },
        svg("circle", { cx: x, cy: y, r: MARK_RADIUS }), svg("text", { x, y: y + 4.5 }, String(point.number)));
      const moment = this.x(point.at_ms);
      return [svg("path", { class: "leader", d: `M${moment} ${y - 20} L${x} ${y - MARK_RADIUS}`, "data-event": event }), mark];
    });
  }

  // Show what has happened up to this event; one behind the last: all of it.
  show(index) {
    const isAll = index >= this.events.length;
    for (const one of this.element.querySelectorAll("[data-event]")) {
      const own = Number(one.dataset.event);
      one.classList.toggle("later", !isAll && own > index);
      one.classList.toggle("on", !isAll && own === index);
    }
    this.now.setAttribute("visibility", isAll ? "hidden" : "visible");
    if (isAll) return;
    const x = this.x(this.events[index].at_ms);
    this.now.setAttribute("x1", x);
    this.now.setAttribute("x2", x);
  }
}
