// Tree drawing: a tree as SVG, with what each node asks, holds and says.

const TEXT = 13; // pixels, as in the style
const SMALL = 11.5;

// What each side of a split is called, without the column's name, which the node shows already.
function sides(report, node) {
  const column = report.columns[node.test.column];
  return [node.rule, node.other].map((text) => {
    const prefix = [column.name, column.label].find((name) => name && text.startsWith(`${name} `));
    return prefix ? text.slice(prefix.length + 1) : text;
  });
}

const asked = (report, node) => {
  const column = report.columns[node.test.column];
  return column.label || column.name;
};

const mixOf = (node) => node.counts ?? node.value;

// Place of the class whose probability is told, of two; -1 if there is none.
const eventOf = (report) => (report.fit.event ? report.fit.classes.indexOf(report.fit.event) : -1);

// What a node would say as a leaf, in short.
function said(report, node) {
  if (report.fit.task === "numbers") {
    const spread = node.spread === null ? "" : ` ± ${short(node.spread, 2)}`;
    return short(node.value[0]) + spread;
  }
  if (report.fit.task === "anomalies") return `${short(node.value[0] / node.value[1], 3)} ×`;
  const event = eventOf(report);
  if (event >= 0) return `P(${report.fit.event}) ${probability(node.value[event])}`;
  return probability(Math.max(...node.value));
}

// The rule that leads to a node; null at the root.
function cameBy(tree, node) {
  const parent = byId(tree).get(node.parent);
  return parent ? (parent.then === node.id ? parent.rule : parent.other) : null;
}

function nodeSentence(report, tree, node) {
  const parts = [];
  parts.push(cameBy(tree, node) ?? "root");
  if (node.test) parts.push(`split on ${asked(report, node)}`);
  if (report.fit.task === "numbers")
    parts.push(`${node.test ? "mean" : "says"} ${said(report, node)}`);
  else if (!node.test && report.fit.task === "anomalies") parts.push(node.vote);
  else if (!node.test)
    parts.push(`says ${node.vote}, ${eventOf(report) < 0 ? "probability " : ""}${said(report, node)}`);
  parts.push(counted(node.rows, "row"));
  return parts.join("; ");
}

// Range of all numbers of a tree, with their spread, that its bars are drawn on.
function numberRange(tree) {
  const low = tree.nodes.map((node) => node.value[0] - (node.spread ?? 0));
  const high = tree.nodes.map((node) => node.value[0] + (node.spread ?? 0));
  return [Math.min(...low), Math.max(...high)];
}

function bar(report, tree, node, x, y, width, height) {
  if (report.fit.task === "numbers") {
    return numberBar(x, y, width, height, numberRange(tree), node.value[0], node.spread);
  }
  return mixBar(x, y, width, height, mixOf(node));
}

const line = (text, x, y, attributes) => draw("text", { x, y, ...attributes }, text);

// Contents of a box in the spread layout: at most two lines of words, the bar, the rows.
function boxContents(report, tree, node, { x, y, width }) {
  const inner = width - 20;
  const middle = x + width / 2;
  const centre = { "text-anchor": "middle" };
  const found = [];
  if (node.test) {
    const words = wrap(asked(report, node), inner, TEXT, 2, true);
    const top = words.length === 1 ? 30 : 21;
    words.forEach((word, k) =>
      found.push(line(word, middle, y + top + 16 * k, { ...centre, class: "asks" })),
    );
  } else {
    const [first, second] =
      report.fit.task === "numbers"
        ? [short(node.value[0]), node.spread === null ? "" : `± ${short(node.spread, 2)}`]
        : report.fit.task === "anomalies"
          ? [said(report, node), "as dense"]
          : [node.vote, said(report, node)];
    found.push(
      line(clip(first, inner, TEXT + 0.5, true), middle, y + 21, { ...centre, class: "says" }),
    );
    found.push(line(second, middle, y + 38, { ...centre, class: "small" }));
  }
  found.push(bar(report, tree, node, x + 10, y + 48, inner, 10));
  const held =
    node.test && report.fit.task === "numbers"
      ? `${counted(node.rows, "row")} · ${short(node.value[0])}`
      : counted(node.rows, "row");
  found.push(line(clip(held, inner, SMALL), middle, y + 76, { ...centre, class: "small" }));
  return found;
}

// How one gets to a node: beside its parent it need not say again which column that asks about.
function cameShort(report, tree, node, kind) {
  const parent = byId(tree).get(node.parent);
  if (!parent) return "all rows";
  if (kind !== "sideways") return cameBy(tree, node);
  return sides(report, parent)[parent.then === node.id ? 0 : 1];
}

// Contents of a flat box: how one gets here, what is asked or said, the bar, the rows.
function rowContents(report, tree, node, { x, y, width }, layout) {
  const inner = width - 20;
  const come = cameShort(report, tree, node, layout.kind);
  const rows = counted(node.rows, "row");
  const widest = textWidth(counted(rootOf(tree).rows, "row"), SMALL) + 8;
  const beside = layout.rowsOnTop ? 0 : widest; // all bars of a tree are alike
  const numbers = report.fit.task === "numbers";
  const what = node.test ? asked(report, node) : report.fit.task === "classes" ? node.vote : "";
  const says = node.test && !numbers ? "" : said(report, node);
  const room = inner - (what && says ? textWidth(says, SMALL) + 8 : 0);
  const strong = { class: node.test ? "asks" : "says" };
  return [
    line(clip(come, inner, SMALL), x + 10, y + 18, { class: "small" }),
    line(clip(what || says, room, TEXT + 0.5, true), x + 10, y + 37, strong),
    what && says
      ? line(says, x + width - 10, y + 37, { class: "small", "text-anchor": "end" })
      : null,
    bar(report, tree, node, x + 10, y + 47, inner - beside, 9),
    line(rows, x + width - 10, y + (beside ? 55 : 18), { class: "small", "text-anchor": "end" }),
  ];
}

// Whether the rows of every node fit behind the words on how one gets there.
function rowsFitOnTop(report, tree, layout) {
  return tree.nodes.every((node) => {
    const words = [cameShort(report, tree, node, layout.kind), counted(node.rows, "row")];
    const [come, rows] = words.map((text) => textWidth(text, SMALL));
    return come + rows + 12 <= layout.places.get(node.id).width - 20;
  });
}

function edge(layout, from, to, share) {
  const width = 1.25 + 5 * Math.sqrt(share);
  if (layout.kind === "outline") {
    const x = from.x + 5;
    const y = to.y + to.height / 2;
    return draw("path", {
      d: `M${x} ${from.y + from.height}V${y}H${to.x}`,
      "stroke-width": 1.5,
    });
  }
  if (layout.kind === "sideways") {
    const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
    const [x2, y2] = [to.x, to.y + to.height / 2];
    const bend = (x2 - x1) / 2;
    return draw("path", {
      d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`,
      "stroke-width": width,
    });
  }
  const [x1, y1] = [from.x + from.width / 2, from.y + from.height];
  const [x2, y2] = [to.x + to.width / 2, to.y - LABEL];
  const bend = (y2 - y1) / 2;
  return draw("path", {
    d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`,
    "stroke-width": width,
  });
}

function edges(report, tree, layout) {
  const below = draw("g", { class: "edges", "aria-hidden": "true" });
  const above = draw("g", { class: "edge-labels", "aria-hidden": "true" });
  const nodes = byId(tree);
  const all = rootOf(tree).rows || 1;
  for (const node of tree.nodes.filter((each) => each.test)) {
    const words = sides(report, node);
    [node.then, node.else].forEach((id, side) => {
      const to = layout.places.get(id);
      const path = edge(layout, layout.places.get(node.id), to, nodes.get(id).rows / all);
      below.append(fill(path, { class: "edge", "data-to": id }, []));
      if (layout.kind !== "spread") return;
      const text = clip(words[side], to.width + GAP_X - 8, SMALL);
      const place = [to.x + to.width / 2, to.y - 6];
      above.append(
        line(text, ...place, { class: "edge-label", "data-to": id, "text-anchor": "middle" }),
      );
    });
  }
  return [below, above];
}

function drawTree(report, tree, width) {
  const layout = layOut(tree, width);
  layout.rowsOnTop = layout.kind !== "spread" && rowsFitOnTop(report, tree, layout);
  const title = `${tree.mine ? "Your tree" : `Tree ${tree.rank}`} with ${counted(tree.n_splits, "split")} and depth ${tree.depth}`;
  // A group, not an image: screen readers shall reach its nodes.
  const svg = picture(layout.width, layout.height, title, tree.text, "group");
  const [below, above] = edges(report, tree, layout);
  const group = draw("g", {});
  downwards(tree).forEach(({ node }, place) => {
    const box = layout.places.get(node.id);
    const contents = layout.kind === "spread" ? boxContents : rowContents;
    group.append(
      draw(
        "g",
        {
          class: node.test ? "node split" : "node leaf",
          "data-node": node.id,
          tabindex: place === 0 ? 0 : -1,
          role: "img",
          "aria-label": nodeSentence(report, tree, node),
        },
        draw("title", {}, ""), // or the browser shows the tree's own title as a tooltip
        draw("rect", { ...box, rx: node.test ? 10 : 4, class: "box" }),
        ...contents(report, tree, node, box, layout),
      ),
    );
  });
  svg.append(below, group, above);
  return { svg, layout };
}

// Show which nodes a row passes, by their ids.
function lightUp(svg, path) {
  const passed = new Set((path ?? []).map(String));
  for (const part of svg.querySelectorAll("[data-node], [data-to]")) {
    part.classList.toggle("on", passed.has(part.dataset.node ?? part.dataset.to));
  }
  svg.classList.toggle("lit", passed.size > 0);
}

function thumbnail(report, tree, path = []) {
  const [width, height] = [64, 48];
  const { places, radius } = thumbnailPlaces(tree, width, height);
  const svg = draw("svg", {
    width,
    height,
    class: "thumbnail",
    "aria-hidden": "true",
    focusable: "false",
  });
  for (const node of tree.nodes.filter((each) => each.parent !== null)) {
    const [from, to] = [places.get(node.parent), places.get(node.id)];
    svg.append(
      draw("line", {
        x1: from.x,
        y1: from.y,
        x2: to.x,
        y2: to.y,
        class: "edge",
        "data-to": node.id,
      }),
    );
  }
  for (const node of tree.nodes) {
    const { x, y } = places.get(node.id);
    const best = node.value.indexOf(Math.max(...node.value));
    const leaf = report.fit.classes ? `block ${colourOf(best)}` : "point";
    svg.append(
      draw("circle", {
        cx: x,
        cy: y,
        r: node.test ? radius / 2 : radius,
        class: node.test ? "knot" : leaf,
        "data-node": node.id,
      }),
    );
  }
  lightUp(svg, path);
  return svg;
}
