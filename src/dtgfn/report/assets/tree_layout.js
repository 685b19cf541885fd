// Tree layout: where the nodes of a tree go: from the top, from the left, or as an outline.

const BOX_HEIGHT = 86;
const GAP_X = 16;
const GAP_Y = 62;
const LABEL = 20; // of the gap, right above a box: which way this is
const BOX_WIDTHS = [176, 152, 128]; // the widest that fits is taken
const MARGIN = 8;
const OUTLINE_BELOW = 640; // pixels; trees too wide become an outline there, else grow sideways
const ROW_HEIGHT = 66;
const ROW_GAP = 10;
const COLUMN_GAP = 24;
const COLUMN_WIDTHS = [118, 190]; // at least and at most

function byId(tree) {
  return new Map(tree.nodes.map((node) => [node.id, node]));
}

const rootOf = (tree) => tree.nodes.find((node) => node.parent === null);

// Nodes from the top, each before its children, the "then" side first.
function downwards(tree) {
  const nodes = byId(tree);
  const found = [];
  const visit = (node, depth) => {
    found.push({ node, depth });
    if (node.test) {
      visit(nodes.get(node.then), depth + 1);
      visit(nodes.get(node.else), depth + 1);
    }
  };
  visit(rootOf(tree), 0);
  return found;
}

// Distance of the children from the middle below their parent: as close as their subtrees allow.
function subtree(nodes, node, step) {
  if (!node.test) return { left: [0], right: [0], children: null };
  const [then, other] = [node.then, node.else].map((id) => subtree(nodes, nodes.get(id), step));
  const shared = Math.min(then.right.length, other.left.length);
  let apart = step;
  for (let d = 0; d < shared; d++) apart = Math.max(apart, then.right[d] - other.left[d] + step);
  const half = apart / 2;
  const depth = Math.max(then.left.length, other.left.length);
  const left = [0];
  const right = [0];
  for (let d = 0; d < depth; d++) {
    left.push(Math.min((then.left[d] ?? Infinity) - half, (other.left[d] ?? Infinity) + half));
    right.push(Math.max((then.right[d] ?? -Infinity) - half, (other.right[d] ?? -Infinity) + half));
  }
  return { left, right, children: [then, other], half };
}

// Boxes {x, y, width, height} of all nodes, spread out below the root.
function spread(tree, boxWidth) {
  const nodes = byId(tree);
  const whole = subtree(nodes, rootOf(tree), boxWidth + GAP_X);
  const middle = -Math.min(...whole.left) + boxWidth / 2 + MARGIN;
  const places = new Map();
  const put = (node, shape, x, depth) => {
    const y = MARGIN + depth * (BOX_HEIGHT + GAP_Y);
    places.set(node.id, { x: x - boxWidth / 2, y, width: boxWidth, height: BOX_HEIGHT });
    if (!node.test) return;
    put(nodes.get(node.then), shape.children[0], x - shape.half, depth + 1);
    put(nodes.get(node.else), shape.children[1], x + shape.half, depth + 1);
  };
  put(rootOf(tree), whole, middle, 0);
  return {
    places,
    kind: "spread",
    width: middle + Math.max(...whole.right) + boxWidth / 2 + MARGIN,
    height: 2 * MARGIN + whole.left.length * (BOX_HEIGHT + GAP_Y) - GAP_Y,
  };
}

// Boxes one below the other, indented by depth: for narrow screens.
function outline(tree, width) {
  const places = new Map();
  const rows = downwards(tree);
  const deepest = Math.max(...rows.map(({ depth }) => depth));
  const indent = Math.min(22, Math.max(8, (width * 0.3) / Math.max(deepest, 1)));
  rows.forEach(({ node, depth }, place) => {
    const x = MARGIN / 2 + depth * indent;
    const y = MARGIN + place * (ROW_HEIGHT + ROW_GAP);
    places.set(node.id, { x, y, width: width - x - MARGIN / 2, height: ROW_HEIGHT });
  });
  const height = 2 * MARGIN + rows.length * (ROW_HEIGHT + ROW_GAP) - ROW_GAP;
  return { places, kind: "outline", width, height };
}

// From left to right, a leaf below the other: for trees that are wider than the page.
function sideways(tree, width) {
  const nodes = byId(tree);
  const columns = tree.depth + 1;
  const room = (width - 2 * MARGIN - COLUMN_GAP * (columns - 1)) / columns;
  const wide = Math.min(Math.max(room, COLUMN_WIDTHS[0]), COLUMN_WIDTHS[1]);
  const places = new Map();
  let next = MARGIN;
  const put = (node, depth) => {
    let y = next;
    if (node.test) {
      y = (put(nodes.get(node.then), depth + 1) + put(nodes.get(node.else), depth + 1)) / 2;
    } else {
      next += ROW_HEIGHT + ROW_GAP;
    }
    const x = MARGIN + depth * (wide + COLUMN_GAP);
    places.set(node.id, { x, y, width: wide, height: ROW_HEIGHT });
    return y;
  };
  put(rootOf(tree), 0);
  const total = 2 * MARGIN + columns * (wide + COLUMN_GAP) - COLUMN_GAP;
  return { places, kind: "sideways", width: total, height: next + MARGIN - ROW_GAP };
}

function layOut(tree, width) {
  const tried = BOX_WIDTHS.map((boxWidth) => spread(tree, boxWidth));
  const fitting = tried.find((layout) => layout.width <= width);
  if (fitting) return fitting;
  return width < OUTLINE_BELOW ? outline(tree, width) : sideways(tree, width);
}

// A tree so small that it fits on a button: nodes are points.
function thumbnailPlaces(tree, width, height) {
  const nodes = byId(tree);
  const whole = subtree(nodes, rootOf(tree), 1);
  const low = Math.min(...whole.left);
  const span = Math.max(...whole.right) - low;
  const stepX = Math.min((width - 12) / Math.max(span, 1), 14);
  const radius = Math.min(4, Math.max(stepX * 0.7, 1.5));
  const stepY = Math.min((height - 12) / Math.max(whole.left.length - 1, 1), 14);
  const start = (width - span * stepX) / 2;
  const places = new Map();
  const put = (node, shape, x, depth) => {
    places.set(node.id, { x: start + (x - low) * stepX, y: 6 + depth * stepY });
    if (!node.test) return;
    put(nodes.get(node.then), shape.children[0], x - shape.half, depth + 1);
    put(nodes.get(node.else), shape.children[1], x + shape.half, depth + 1);
  };
  put(rootOf(tree), whole, 0, 0);
  return { places, radius };
}
