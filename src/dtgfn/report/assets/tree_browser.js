// Tree browser: one tree at a time, by buttons, keys or from a list; details of its nodes.

// Everything known of a node, as shown beside it on hover and focus.
function nodeDetails(report, tree, node) {
  const come = cameBy(tree, node) ?? "All training rows";
  const found = [make("p", { class: "come" }, named(come))];
  if (node.test) found.push(make("p", {}, "asks: ", named(node.rule)));
  if (node.alike) {
    const [low, high] = node.alike.map((threshold) => short(threshold, 6));
    found.push(make("p", {}, `thresholds from ${low} to ${high} part the rows alike`));
  }
  if (report.fit.task === "numbers") {
    const spread = node.spread === null ? "" : `, spread ${short(node.spread, 6)}`;
    found.push(make("p", {}, `mean ${short(node.value[0], 6)}${spread}`));
  } else {
    found.push(classDetails(report, node));
  }
  found.push(make("p", {}, counted(node.rows, "training row")));
  if (node.gain !== null && node.gain !== undefined) {
    found.push(make("p", {}, `gain of this split: ${short(node.gain)} nats`));
  }
  return found;
}

function classDetails(report, node) {
  const names = report.fit.classes ?? node.value.map((_, k) => `output ${k}`);
  const order = node.value.map((_, k) => k);
  if (order.length > 6) order.sort((a, b) => node.value[b] - node.value[a]);
  const rows = order
    .slice(0, 6)
    .map((k) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, swatch(k), " ", named(names[k])),
        make("td", {}, node.counts ? short(node.counts[k], 6) : "–"),
        make("td", {}, probability(node.value[k])),
      ),
    );
  return table("Classes at this node", ["class", "rows", "probability"], rows);
}

class TreeBrowser {
  constructor(report) {
    this.report = report;
    this.place = 0;
    this.values = null; // of the row whose path lights up
    this.mine = null; // the tree that the reader has made of one
    this.listeners = [];
    this.caption = make("p", { class: "caption", "aria-live": "polite" });
    this.tip = make("div", { class: "tip", role: "tooltip", id: newId("tip"), hidden: true });
    this.canvas = drawn({ class: "canvas" }, (width) => this.paint(width));
    this.box = make("div", { class: "tree-box" }, this.canvas, this.tip);
    this.lit = make("p", { class: "note" });
    this.text = make("pre", { tabindex: 0, "aria-label": "This tree as text" });
    this.list = make("ol", { class: "tree-list", "aria-label": "The most probable trees" });
    this.previous = make("button", { type: "button" }, "← Previous");
    this.next = make("button", { type: "button" }, "Next →");
    this.previous.addEventListener("click", () => this.show(this.place - 1));
    this.next.addEventListener("click", () => this.show(this.place + 1));
    this.buttons = report.trees.map((tree, place) => this.listed(tree, place));
    this.list.append(...this.buttons.map((button) => make("li", {}, button)));
    this.whatIf = report.what_if ? new WhatIf(report, this) : null;
    const alone = report.trees.length < 2;
    for (const way of [this.list, this.previous, this.next]) way.hidden = alone;
    this.watchNodes();
    this.show(0);
  }

  get tree() {
    return this.mine ?? this.report.trees[this.place];
  }

  element() {
    const copy = make("button", { type: "button" }, "Copy");
    copy.addEventListener("click", () => copyText(this.text, copy));
    const element = make(
      "div",
      { class: "browser" },
      this.list,
      make("div", { class: "controls" }, this.previous, this.caption, this.next),
      this.box,
      this.lit,
      this.whatIf?.box,
      make(
        "details",
        { class: "as-text" },
        make("summary", {}, "This tree as text"),
        copy,
        this.text,
      ),
    );
    element.addEventListener("keydown", (event) => this.onKey(event));
    return element;
  }

  listed(tree, place) {
    const shown = this.weighed(tree);
    const button = make(
      "button",
      { type: "button", "aria-label": `Tree ${tree.rank}, ${shown[0]} ${shown[1]}` },
      make("span", { class: "picture" }, thumbnail(this.report, tree)),
      make(
        "span",
        {},
        make("b", {}, `${tree.rank}`),
        this.report.fit.task === "anomalies" ? "" : ` ${shown[1]}`,
      ),
    );
    button.addEventListener("click", () => this.show(place));
    return button;
  }

  // What puts a tree in its place of the list: a name and a number.
  weighed(tree) {
    if (this.report.fit.task === "anomalies") return ["splits:", String(tree.n_splits)];
    const name = tree.by_share ? "share of the drawn trees" : "posterior probability";
    return [name, treeProbability(tree.probability)];
  }

  show(place) {
    const last = this.report.trees.length - 1;
    this.place = Math.min(Math.max(place, 0), last);
    this.mine = null;
    this.previous.setAttribute("aria-disabled", String(this.place === 0));
    this.next.setAttribute("aria-disabled", String(this.place === last));
    this.buttons.forEach((button, k) => {
      if (k === this.place) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    });
    this.reveal(this.buttons[this.place]);
    this.refresh();
  }

  // Show the tree that the reader has made, until another is chosen.
  showMine(tree) {
    this.mine = tree;
    this.refresh();
  }

  refresh() {
    this.caption.replaceChildren(...this.captionParts());
    this.text.textContent = this.tree.text;
    this.hideTip();
    this.whatIf?.clear();
    if (this.canvas.clientWidth) this.canvas.replaceChildren(this.paint(this.canvas.clientWidth));
    this.listeners.forEach((listener) => listener());
  }

  // Scroll the list, and only the list.
  reveal(button) {
    const [here, list] = [button.parentElement, this.list];
    if (here)
      list.scrollLeft =
        here.offsetLeft - list.offsetLeft - (list.clientWidth - here.offsetWidth) / 2;
  }

  captionParts() {
    const tree = this.tree;
    const name = tree.mine ? "Your tree" : `Tree ${tree.rank} of ${this.report.trees.length}`;
    const parts = [make("b", {}, name)];
    if (tree.mine && tree.probability !== null)
      parts.push(`posterior probability ${treeProbability(tree.probability)}`);
    else if (this.report.fit.task !== "anomalies" && !tree.mine) parts.push(this.weighed(tree).join(" "));
    if (tree.variants > 1) parts.push(counted(tree.variants, "variant"));
    parts.push(`${counted(tree.n_splits, "split")}, depth ${tree.depth}`);
    if (tree.log_reward !== null) parts.push(`log reward ${short(tree.log_reward, 6)}`);
    return parts.flatMap((part, k) => (k ? [" · ", part] : [part]));
  }

  paint(width) {
    const { svg, layout } = drawTree(this.report, this.tree, width);
    this.svg = svg;
    this.layout = layout;
    this.light();
    const wide = layout.width > width;
    const holder = wide
      ? scroller("The tree, which is wider than the page", svg)
      : make("div", {}, svg);
    holder.classList.add("holder");
    return holder;
  }

  light() {
    if (this.svg) lightUp(this.svg, this.values && pathThrough(this.tree, this.values));
  }

  // Light up the path of a row in all trees; null puts the lights out.
  follow(values, name) {
    this.values = values;
    const chosen = make("a", { href: "#explorer" }, "Ask about a row");
    this.lit.replaceChildren(
      ...(values ? ["Lit: the path of ", named(name), ". ", chosen, " to change it."] : []),
    );
    this.light();
    this.buttons.forEach((button, k) => {
      const path = values && pathThrough(this.report.trees[k], values);
      lightUp(button.querySelector("svg"), path);
    });
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const within = event.target.closest("pre, .scroller");
    const node = event.target.closest("[data-node]");
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.hideTip();
    else if (move && !(within && !node)) {
      const held = document.activeElement.closest?.(".tree-list");
      this.show(this.place + move);
      if (held) this.buttons[this.place].focus({ preventScroll: true });
      if (node) this.focusNode(0);
      event.preventDefault();
    } else if (node && event.key === "Enter") {
      this.ask(node);
      event.preventDefault();
    } else if (node && ["ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
      const nodes = [...this.svg.querySelectorAll("[data-node]")];
      const here = nodes.indexOf(node);
      this.focusNode(
        { ArrowUp: here - 1, ArrowDown: here + 1, Home: 0, End: nodes.length - 1 }[event.key],
      );
      event.preventDefault();
    }
  }

  // One node at a time is in the tab order; arrows move on from it.
  focusNode(place) {
    const nodes = [...this.svg.querySelectorAll("[data-node]")];
    const chosen = nodes[Math.min(Math.max(place, 0), nodes.length - 1)];
    nodes.forEach((node) => node.setAttribute("tabindex", node === chosen ? 0 : -1));
    chosen.focus();
  }

  watchNodes() {
    const find = (event) => event.target.closest?.("g[data-node]");
    for (const name of ["focusin", "click"]) {
      this.box.addEventListener(name, (event) => find(event) && this.showTip(find(event)));
    }
    this.box.addEventListener("click", (event) => find(event) && this.ask(find(event)));
    this.box.addEventListener("pointerover", (event) =>
      find(event) ? this.showTip(find(event)) : this.hideTip(),
    );
    this.box.addEventListener("pointerleave", () => this.hideTip());
    this.box.addEventListener("focusout", () => this.hideTip());
  }

  nodeOf(group) {
    return this.tree.nodes.find((each) => String(each.id) === group.dataset.node);
  }

  ask(group) {
    this.whatIf?.open(this.nodeOf(group));
  }

  showTip(group) {
    const node = this.nodeOf(group);
    this.tip.replaceChildren(...nodeDetails(this.report, this.tree, node));
    this.tip.hidden = false;
    this.svg.querySelector("[aria-describedby][data-node]")?.removeAttribute("aria-describedby");
    group.setAttribute("aria-describedby", this.tip.id);
    const [box, frame] = [
      group.querySelector(".box").getBoundingClientRect(),
      this.box.getBoundingClientRect(),
    ];
    const left = box.left - frame.left + box.width / 2 - this.tip.offsetWidth / 2;
    const room = frame.width - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(left, room))}px`;
    this.tip.style.top = `${box.bottom - frame.top + 6}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }
}

async function copyText(element, button) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(element); // then the keyboard can copy it
    button.textContent = "Selected";
  }
}
