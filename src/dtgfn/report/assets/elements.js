// Elements: make HTML and SVG; what comes from the data only ever goes in as text.

const SVG = document.getElementById("patterns").namespaceURI;
const N_COLOURS = 8;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const make = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// A name from the data; isolated, so that text from right to left stays within its bounds.
const named = (text) => make("bdi", {}, String(text));

// The same within a longer text.
const isolated = (text) => `\u2068${text}\u2069`;

let counter = 0;
const newId = (stem) => `${stem}-${++counter}`;

// An SVG that screen readers announce as one picture, with a title and a description.
function picture(width, height, title, description, role = "img") {
  const ids = [newId("title"), newId("desc")];
  return draw(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role,
      "aria-labelledby": ids[0],
      "aria-describedby": ids[1],
      focusable: "false",
    },
    draw("title", { id: ids[0] }, title),
    draw("desc", { id: ids[1] }, description),
  );
}

// Draw into a box by its width, and again whenever that changes.
function drawn(attributes, paint) {
  const box = make("div", attributes);
  let width = 0;
  const repaint = () => {
    const now = Math.floor(box.clientWidth);
    if (now > 0 && now !== width) {
      width = now;
      box.replaceChildren(paint(width));
    }
  };
  new ResizeObserver(repaint).observe(box);
  return box;
}

function table(caption, head, rows) {
  return make(
    "table",
    {},
    make("caption", { class: "hidden" }, caption),
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows),
  );
}

// A wide thing that scrolls by itself, also by keyboard, so that the page does not.
const scroller = (label, ...children) =>
  make("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": label }, ...children);

// ---- numbers as text

function short(number, digits = 4) {
  if (number === null || number === undefined) return "unknown";
  if (number === 0) return "0";
  const size = Math.abs(number);
  const text =
    size >= 1e7 || size < 1e-4
      ? number.toExponential(2)
      : String(Number(number.toPrecision(Math.max(digits, size >= 1000 ? 6 : 0))));
  return text.replace("-", "\u2212");
}

function probability(p) {
  if (p === null || p === undefined) return "unknown";
  if (p > 0 && p < 0.0005) return "< 0.001";
  if (p < 1 && p > 0.9995) return "> 0.999";
  return p.toFixed(3);
}

// Tiny probabilities of single trees still differ: two digits of them.
function treeProbability(p) {
  if (p === null || p >= 0.001 || p <= 0) return probability(p);
  return p < 1e-5 ? p.toExponential(1) : String(Number(p.toPrecision(2)));
}

const percent = (share) => `${short(share * 100, 3)} %`;

// 12,000 as in the sentences of the report; fractions are weighted rows.
const count = (n) =>
  Number.isInteger(n) && n < 1e7 ? n.toLocaleString("en") : n > 1e7 ? compact(n) : short(n, 6);

const compact = (n) =>
  n.toLocaleString("en", {
    notation: "compact",
    compactDisplay: "long",
    maximumSignificantDigits: 3,
  });

const counted = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// ---- text that must fit

const ruler = document.createElement("canvas").getContext("2d");

function textWidth(text, size, bold = false) {
  ruler.font = `${bold ? "600 " : ""}${size}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

function clip(text, width, size, bold = false) {
  if (textWidth(text, size, bold) <= width) return text;
  const letters = Array.from(text);
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(letters.slice(0, middle).join("") + "…", size, bold) <= width) low = middle;
    else high = middle - 1;
  }
  return letters.slice(0, low).join("").trimEnd() + "…";
}

// At most so many lines; what is left over is cut off with an ellipsis.
function wrap(text, width, size, lines, bold = false) {
  const words = text.split(/(?<=[\s_/-])/u);
  const found = [];
  let line = "";
  while (words.length && found.length < lines - 1) {
    if (line && textWidth(line + words[0].trimEnd(), size, bold) > width) {
      found.push(line.trimEnd());
      line = "";
    } else {
      line += words.shift();
    }
  }
  const rest = (line + words.join("")).trim();
  if (rest) found.push(rest);
  return found.map((each) => clip(each, width, size, bold));
}
