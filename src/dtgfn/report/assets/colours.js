// Colours: what stands for a class, by colour, by pattern and by name.

const colourOf = (k) => `class-${k % N_COLOURS}`;

// The pattern moves on with every round of colours, so that no two of 64 classes look the same.
const hatchOf = (k) => (k + Math.floor(k / N_COLOURS)) % N_COLOURS;

// A rectangle of a class: its colour, and its pattern above.
function block(x, y, width, height, k, title = null) {
  const hatch = hatchOf(k);
  const label = () => (title === null ? null : draw("title", {}, title));
  return draw(
    "g",
    {},
    draw("rect", { x, y, width, height, class: `block ${colourOf(k)}` }, label()),
    hatch ? draw("rect", { x, y, width, height, fill: `url(#hatch-${hatch})` }, label()) : null,
  );
}

function swatch(k) {
  return draw(
    "svg",
    { class: "swatch", width: 14, height: 14, "aria-hidden": "true", focusable: "false" },
    block(0.5, 0.5, 13, 13, k),
  );
}

function legend(classes) {
  const shown = classes.slice(0, 24);
  const items = shown.map((name, k) => make("li", {}, swatch(k), " ", named(name)));
  if (classes.length > shown.length) {
    items.push(make("li", {}, `and ${classes.length - shown.length} more`));
  }
  return make("ul", { class: "legend", "aria-label": "Classes" }, ...items);
}

// Shares of the classes side by side.
function mixBar(x, y, width, height, shares) {
  const total = shares.reduce((sum, each) => sum + each, 0);
  const group = draw("g", { class: "mix" });
  let at = x;
  shares.forEach((share, k) => {
    const wide = total > 0 ? (width * share) / total : 0;
    if (wide > 0.2) group.append(block(at, y, wide, height, k));
    at += wide;
  });
  group.append(draw("rect", { x, y, width, height, class: "frame" }));
  return group;
}

// A number with its spread on the range of all numbers of a tree.
function numberBar(x, y, width, height, range, value, spread) {
  const place = (number) =>
    x + width * Math.min(Math.max((number - range[0]) / (range[1] - range[0] || 1), 0), 1);
  const middle = y + height / 2;
  return draw(
    "g",
    { class: "number-bar" },
    draw("line", { x1: x, x2: x + width, y1: middle, y2: middle, class: "range" }),
    draw("line", {
      x1: place(value - (spread ?? 0)),
      x2: place(value + (spread ?? 0)),
      y1: middle,
      y2: middle,
      class: "spread",
    }),
    draw("circle", { cx: place(value), cy: middle, r: height / 2, class: "point" }),
  );
}
