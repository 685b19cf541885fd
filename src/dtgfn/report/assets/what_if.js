// What if: other splits at a node of a tree, with their probabilities, and the tree regrown.

// Where a node of a tree is among the nodes that the report carries; null where it is not.
function locate(asked, tree, node) {
  const path = [];
  for (let at = node; at.parent !== null; at = byId(tree).get(at.parent)) path.unshift(at);
  let here = asked.nodes[0];
  let parent = rootOf(tree);
  for (const step of path) {
    const option = here?.options.find((each) => each.rule === parent.rule);
    const next = option && (parent.then === step.id ? option.then : option.else);
    if (next === null || next === undefined) return null;
    here = asked.nodes[next];
    parent = step;
  }
  return here ?? null;
}

// Nodes of the most probable subtree on a node that the report carries, root first.
function grown(asked, here, option, nextId, parent) {
  const id = nextId();
  const { rows, counts, value, spread, vote } = here;
  const leaf = { id, parent, rows, counts, value, spread, vote, gain: null, alike: null };
  const nothing = { then: null, else: null, test: null, rule: null, other: null };
  if (!option) return [{ ...leaf, ...nothing }];
  const { test, rule, other, alike } = option;
  const sides = [option.then, option.else].map((index) => {
    const child = asked.nodes[index];
    return grown(asked, child, child.options[child.best], nextId, id);
  });
  const split = { ...leaf, test, rule, other, alike, then: sides[0][0].id, else: sides[1][0].id };
  return [split, ...sides[0], ...sides[1]];
}

// The tree with another option at a node, everything below it grown anew.
function regrown(asked, tree, node, option) {
  let last = Math.max(...tree.nodes.map((each) => each.id));
  const nextId = () => ++last;
  const below = new Set([node.id]);
  downwards(tree).forEach(({ node: each }) => below.has(each.parent) && below.add(each.id));
  const fresh = grown(asked, locate(asked, tree, node), option, nextId, node.parent);
  const swap = (id) => (id === node.id ? fresh[0].id : id);
  const kept = tree.nodes
    .filter((each) => !below.has(each.id))
    .map((each) => ({ ...each, then: swap(each.then), else: swap(each.else) }));
  return finished([...kept, ...fresh]);
}

function finished(nodes) {
  const tree = { rank: 0, mine: true, variants: 1, log_reward: null, probability: null, nodes };
  const levels = downwards(tree).map(({ node }) => depthOf(tree, node));
  tree.n_splits = nodes.filter((node) => node.test).length;
  tree.depth = Math.max(...levels);
  tree.text = textOf(tree, rootOf(tree), "");
  return tree;
}

function depthOf(tree, node) {
  let depth = 0;
  for (let at = node; at.parent !== null; at = byId(tree).get(at.parent)) depth += 1;
  return depth;
}

function textOf(tree, node, indent) {
  const nodes = byId(tree);
  if (!node.test) return `${indent}${node.vote}  (${counted(node.rows, "row")})`;
  return [
    `${indent}if ${node.rule}`,
    textOf(tree, nodes.get(node.then), `${indent}    `),
    `${indent}else (${node.other})`,
    textOf(tree, nodes.get(node.else), `${indent}    `),
  ].join("\n");
}

// Posterior probability of a tree and its variants: the product over its nodes. Null where a node
// is not here, or is only known from draws.
function productOf(asked, tree) {
  let product = 1;
  for (const node of tree.nodes) {
    const here = locate(asked, tree, node);
    if (!here || here.draws !== null) return null;
    const p = node.test ? here.options.find((each) => each.rule === node.rule)?.p : here.stop;
    if (p === undefined || p === null) return null;
    product *= p;
  }
  return product;
}

// What may stand at the node that was pointed out, below the drawing.
class WhatIf {
  constructor(report, browser) {
    this.asked = report.what_if;
    this.browser = browser;
    this.head = make("h3", {}, "What if another question stood here?");
    this.words = make("p", { class: "asked", "aria-live": "polite" });
    this.list = make("ul", { class: "options" });
    this.back = make("button", { type: "button", hidden: true }, "Back to the listed tree");
    this.back.addEventListener("click", () => browser.show(browser.place));
    this.box = make("div", { class: "what-if" }, this.head, this.words, this.list, this.back);
    this.clear();
  }

  clear() {
    const why = this.asked.nodes.length ? null : `${this.asked.why} `;
    this.words.textContent = why
      ? `${why}The command dtgfn given, or model.given in Python, may still tell.`
      : "Choose a node of the tree: here stand the questions that may be asked there, with their posterior probabilities. Take one, and the tree below it grows anew.";
    this.list.replaceChildren();
    this.back.hidden = !this.browser.tree?.mine;
  }

  open(node) {
    if (!this.asked.nodes.length) return;
    const tree = this.browser.tree;
    const here = locate(this.asked, tree, node);
    const where = cameBy(tree, node) ?? "the top";
    if (!here || here.stop === null) {
      this.words.replaceChildren("What may stand at ", named(where), notHere());
      this.list.replaceChildren();
      return;
    }
    const told = here.options.reduce((sum, each) => sum + each.p, here.stop);
    const rest = told < 0.9995 ? ` All others together: ${probability(1 - told)}.` : "";
    const drawn =
      here.draws === null
        ? ""
        : ` Told by ${count(Math.round(here.draws))} effective draws, with standard errors.`;
    this.words.replaceChildren("At ", named(where), ", for ", counted(here.rows, "row"), `.${rest}${drawn}`);
    const leaf = { rule: `no question: ${here.vote}`, p: here.stop, se: null, leaf: true };
    const all = [...here.options, leaf].sort((a, b) => b.p - a.p);
    this.list.replaceChildren(...all.map((option) => this.listed(tree, node, option)));
  }

  listed(tree, node, option) {
    const now = option.leaf ? !node.test : option.rule === node.rule;
    const here = option.leaf || option.then !== null;
    const error = option.se ? ` ± ${short(option.se, 2)}` : "";
    const row = make(
      "button",
      { type: "button", "aria-pressed": String(now), "aria-disabled": String(!here) },
      make("span", { class: "chance" }, `${probability(option.p)}${error}`),
      make("span", { class: "share", "aria-hidden": "true" }),
      named(option.rule),
      now ? make("small", {}, " as it is") : here ? null : make("small", {}, " not in this file"),
    );
    row.querySelector(".share").style.setProperty("--share", String(Math.min(option.p, 1)));
    row.addEventListener("click", () => {
      if (now) return;
      if (here) this.take(tree, node, option.leaf ? null : option);
      else this.words.replaceChildren("The trees behind ", named(option.rule), notHere());
    });
    return make("li", {}, row);
  }

  take(tree, node, option) {
    const fresh = regrown(this.asked, tree, node, option);
    fresh.probability = productOf(this.asked, fresh);
    this.browser.showMine(fresh);
    this.back.hidden = false;
  }
}

const notHere = () =>
  " is not in this file. The command dtgfn given, or model.given in Python, tells it.";
