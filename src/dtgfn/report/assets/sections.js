// Sections: what stands between the trees and the end, each from its part of the report.

function section(id, title, explanation, ...contents) {
  return make(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    make("h2", { id: `${id}-title` }, title),
    explanation ? make("p", { class: "explanation" }, explanation) : null,
    ...contents,
  );
}

const figure = (title, ...contents) =>
  make("figure", {}, make("figcaption", {}, title), ...contents);

function sizesSection({ sizes }) {
  if (!sizes) return null;
  const how = sizes.exact ? "summed over all trees" : "estimated from the sampled trees";
  const mean =
    sizes.mean_splits === null
      ? ""
      : ` A tree has ${short(sizes.mean_splits, 3)} splits on average.`;
  return section(
    "sizes",
    "How large the trees are",
    `Posterior probability of each number of splits, ${how}, and of each depth.${mean}`,
    make(
      "div",
      { class: "pair" },
      figure("Splits", distribution("Posterior of the number of splits", "splits", sizes.splits)),
      figure(
        sizes.exact ? "Depth, estimated from the sampled trees" : "Depth",
        distribution("Posterior of the depth", "depth", sizes.depth),
      ),
    ),
  );
}

// Name of each measure, what it is, and what its interval says.
const MEASURES = {
  inclusion: [
    "Use",
    "Probability that a tree uses the column",
    "how well the trees at hand tell it",
  ],
  share: [
    "Share of gain",
    "The column's part in what all splits of a tree gain",
    "90 % of the trees",
  ],
  gain: [
    "Gain",
    "By how many nats the column's splits make the training data more probable",
    "90 % of the trees",
  ],
};

// Of sums of trees, where nearly every column is used by some tree.
const MEASURES_OF_SUMS = {
  splits: ["Share of splits", "The column's part in all splits of a sum", "90 % of the draws"],
  share: [
    "Share of gain",
    "The column's part in how much splits make the trees vary over training rows",
    "90 % of the draws",
  ],
  gain: [
    "Gain",
    "Variance over training rows that the column's splits give the trees",
    "90 % of the draws",
  ],
};

function importanceTable(importances, measure) {
  const values = importances.flatMap((row) => [
    row[measure],
    row[`${measure}_low`],
    row[`${measure}_high`],
  ]);
  const known = values.filter((number) => number !== null);
  const low = Math.min(0, ...known);
  const high = measure === "inclusion" ? 1 : Math.max(...known, 1e-9);
  const text = measure === "gain" ? (number) => short(number, 3) : probability;
  const sorted = [...importances].sort((a, b) => (b[measure] ?? 0) - (a[measure] ?? 0));
  const rows = sorted.map((row) => {
    const [value, from, to] = [row[measure], row[`${measure}_low`], row[`${measure}_high`]];
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, named(row.title)),
      make("td", { class: "wide" }, intervalBar(low, high, value ?? 0, from, to)),
      make("td", {}, text(value)),
      make(
        "td",
        { class: "muted" },
        from === null ? "" : from === to ? "exact" : `${text(from)} to ${text(to)}`,
      ),
    );
  });
  return table(
    "Importance of each column",
    ["column", "", "value", known.length > importances.length ? "interval" : ""],
    rows,
  );
}

// Buttons of which one is on; paints what it stands for.
function switcher(label, choices, paint) {
  const holder = make("div", {});
  const buttons = Object.entries(choices).map(([key, name]) => {
    const button = make("button", { type: "button", "aria-pressed": "false" }, name);
    button.addEventListener("click", () => choose(key));
    return [key, button];
  });
  const choose = (key) => {
    buttons.forEach(([other, button]) =>
      button.setAttribute("aria-pressed", String(other === key)),
    );
    holder.replaceChildren(...paint(key));
  };
  choose(buttons[0][0]);
  const group = make(
    "div",
    { class: "switch", role: "group", "aria-label": label },
    ...buttons.map(([, b]) => b),
  );
  return [group, holder];
}

function importancesSection({ importances, n_importances: all }) {
  if (!importances?.length) return null;
  const measures = "splits" in importances[0] ? MEASURES_OF_SUMS : MEASURES;
  const spans = importances.some((row) => row.inclusion_low !== null);
  const explained = (key) =>
    `${measures[key][1]}${spans ? `; the line spans ${measures[key][2]}` : ""}.`;
  const keys = Object.keys(measures);
  const used = importances.map((row) => row[keys[0]]);
  if (Math.min(...used) === Math.max(...used)) keys.reverse(); // use alone says nothing then
  const names = Object.fromEntries(keys.map((key) => [key, measures[key][0]]));
  const left = (all ?? importances.length) - importances.length;
  return section(
    "importances",
    "Which columns matter",
    left > 0 ? `The ${importances.length} most important of ${all} columns.` : "",
    ...switcher("Measure of importance", names, (key) => [
      make("p", { class: "explanation" }, explained(key)),
      make("div", { class: "importances" }, importanceTable(importances, key)),
    ]),
  );
}

function coOccurrenceSection({ co_occurrence: pairs }) {
  if (!pairs || pairs.names.length < 2) return null;
  const cellsOf = {
    probability: (p) => ({ text: p.toFixed(2), shade: p }),
    lift: (lift) =>
      lift === null
        ? { text: "–", shade: 0 }
        : {
            text: lift.toFixed(2),
            shade: Math.min(Math.abs(Math.log2(lift || 1e-9)) / 2, 1),
            apart: lift < 1,
          },
  };
  const told = {
    probability:
      "Probability that one tree uses both columns, estimated from the sampled trees; on the diagonal, that it uses the column at all.",
    lift: "How many times as often a tree uses both as it would by chance: above 1 the two columns go together, below 1 one stands in for the other.",
  };
  return section(
    "pairs",
    "Which columns go together",
    "",
    ...switcher("Measure of pairs", { probability: "Probability", lift: "Lift" }, (key) => [
      make("p", { class: "explanation" }, told[key]),
      scroller(
        "Pairs of columns",
        shades(
          "Pairs of columns",
          pairs.names,
          pairs.names,
          pairs[key].map((row) => row.map(cellsOf[key])),
        ),
      ),
    ]),
  );
}

function historySection({ history }) {
  const series = history?.series.filter(({ y }) => y.some((number) => number !== null)) ?? [];
  if (!series.length) return null;
  if (history.x.length < 3) return shortHistory(history, series);
  const evidence = /elbo|evidence|log_z/i;
  const charts = series.map(({ key, name, y, unit }) => {
    const known = evidence.test(key) ? (history.log_evidence ?? null) : null;
    const dashed =
      known === null ? "" : make("small", {}, ` dashed: log evidence ${short(known, 6)}`);
    const caption = make("span", {}, unit ? `${name}, ${unit}` : name, dashed);
    return figure(
      caption,
      curve(`${name} while fitting`, history.x_name, unit, history.x, y, known),
    );
  });
  return section(
    "history",
    "How the fit went",
    "Curves that have become level speak for a fit that was long enough.",
    make("div", { class: "pair" }, ...charts),
  );
}

// Too few points for a curve: the last ones as numbers.
function shortHistory({ x, x_name: name }, series) {
  const rows = series.map(({ name: word, y, unit }) =>
    make(
      "div",
      {},
      make("dt", {}, word),
      make("dd", {}, short(y[y.length - 1]), make("span", {}, unit ?? "")),
    ),
  );
  const ended = `The fit was over before there was a curve to draw; this is how it stood at ${name} ${short(x[x.length - 1])}.`;
  return section(
    "history",
    "How the fit went",
    ended,
    make("dl", { class: "facts scores" }, ...rows),
  );
}

const HELD_OUT = {
  rows: ["Rows", "held-out rows", (n) => short(n, 6)],
  anomalies: ["Anomalies", "among them", (n) => short(n, 6)],
  accuracy: ["Accuracy", "share of rows whose likeliest class is right", probability],
  log_loss: ["Log loss", "nats; smaller is better", short],
  brier: ["Brier score", "squared error of the probabilities; smaller is better", short],
  calibration_error: [
    "Calibration error",
    "mean gap between probability and share right",
    probability,
  ],
  auc: ["AUC", "chance that an event has a higher P(event) than another row", probability],
  rmse: ["RMSE", "root of the mean squared error, in the target's unit", short],
  mean_absolute_error: ["Mean absolute error", "in the target's unit", short],
  r2: ["R²", "share of the variance explained; below 0, worse than the mean", (n) => short(n, 3)],
  coverage: ["Coverage", "share of rows inside their interval", probability],
  auroc: ["AUROC", "chance that an anomaly scores below a normal row", probability],
  average_precision: ["Average precision", "over all thresholds", probability],
  f1: ["F1", "of the anomalies found at the threshold", probability],
  precision: ["Precision", "share of the rows called anomalies that are", probability],
  recall: ["Recall", "share of the anomalies that are called so", probability],
};

function heldOutSection({ held_out: held, fit }) {
  if (!held) {
    const rows =
      fit.task === "anomalies"
        ? "rows of which the truth is known"
        : "rows that the model has not seen";
    return section(
      "held-out",
      "On held-out rows",
      "No held-out rows were given, so nothing here checks the predictions.",
      make(
        "p",
        { class: "explanation" },
        make("code", {}, "dtgfn report MODEL --data TABLE --target COLUMN"),
        " or ",
        make("code", {}, "model.report(X, y)"),
        ` with ${rows} would.`,
      ),
    );
  }
  const facts = Object.entries(HELD_OUT)
    .filter(([key]) => typeof held[key] === "number")
    .map(([key, [name, words, text]]) => {
      const aimed =
        key === "coverage" && held.level ? `${words}; ${probability(held.level)} is right` : words;
      const constant = key === "calibration_error" ? undefined : held.baseline?.[key];
      const beside =
        typeof constant === "number" ? `; ${text(constant)} by the training shares alone` : "";
      return make(
        "div",
        {},
        make("dt", {}, name),
        make("dd", {}, make("b", {}, text(held[key])), make("span", {}, aimed + beside)),
      );
    });
  const parts = [make("dl", { class: "facts scores" }, ...facts)];
  const figures = [];
  if (held.reliability?.some((bin) => bin.rows > 0)) {
    figures.push(
      figure(
        "Calibration: on the diagonal, probabilities mean what they say",
        reliability(held.reliability),
      ),
    );
  }
  if (held.confusion) {
    const { labels, n_labels: all } = held.confusion;
    const some =
      all > labels.length ? ` (the ${labels.length} most confused of ${all} classes)` : "";
    figures.push(
      figure(`Confusion: truth in rows, prediction in columns${some}`, confusion(held.confusion)),
    );
  }
  if (held.points?.length)
    figures.push(figure("Truth against prediction, with intervals", scatter(held.points)));
  if (figures.length) parts.push(make("div", { class: "pair" }, ...figures));
  return section("held-out", "On held-out rows", "", ...parts);
}

function confusion({ labels, counts }) {
  const cells = counts.map((row) => {
    const total = row.reduce((sum, n) => sum + n, 0) || 1;
    return row.map((n) => ({ text: short(n, 6), shade: n / total }));
  });
  return scroller(
    "Confusion of classes",
    shades("Truth in rows, prediction in columns", labels, labels, cells),
  );
}

function anomalySection({ anomaly }) {
  if (!anomaly?.scores) return null;
  const { edges, counts } = anomaly.scores;
  const views = (anomaly.views ?? []).map(
    ({ columns, trees }) => `${columns.join(", ")}: ${counted(trees, "tree")}`,
  );
  return section(
    "scores",
    "Scores of the training rows",
    "The lower its score, the emptier the space around a row. Rows below the threshold are called anomalies.",
    figure("", histogram("Scores of the training rows", "score", edges, counts, anomaly.offset)),
    make(
      "p",
      {},
      `Contamination: ${anomaly.contamination}; threshold: ${short(anomaly.offset, 6)}.`,
    ),
    views.length
      ? make(
          "details",
          {},
          make("summary", {}, `The sets of columns that are looked at (${views.length})`),
          make("ul", { class: "views" }, ...views.map((view) => make("li", {}, named(view)))),
        )
      : null,
  );
}

function detailsSection({ fit, columns }) {
  const changed = new Set(fit.changed ?? []);
  const settings = Object.entries(fit.settings ?? {}).map(([name, value]) =>
    make(
      "tr",
      { class: changed.has(name) ? "changed" : null },
      make("th", { scope: "row" }, make("code", {}, name)),
      make("td", {}, make("code", {}, typeof value === "string" ? value : JSON.stringify(value))),
      make("td", {}, changed.has(name) ? "changed" : "default"),
    ),
  );
  const about = ({ kind, categories, thresholds, has_missing: missing }) => {
    const parts = [];
    if (kind === "category") parts.push(`${categories.length} categories`);
    if (kind === "number" && thresholds) parts.push(`${thresholds.length} thresholds`);
    if (missing) parts.push("some missing");
    return parts.join(", ");
  };
  const rows = columns.map((column) =>
    make(
      "tr",
      {},
      make(
        "th",
        { scope: "row" },
        named(column.name),
        column.title && column.title !== column.name
          ? make("small", { class: "muted" }, " ", named(column.title))
          : null,
      ),
      make("td", {}, column.kind),
      make("td", {}, about(column)),
    ),
  );
  return section(
    "details",
    "Details",
    "",
    make(
      "details",
      {},
      make("summary", {}, "All settings"),
      table("All settings", ["setting", "value", ""], settings),
    ),
    make(
      "details",
      {},
      make("summary", {}, `All ${columns.length} columns`),
      table("All columns", ["column", "kind", "contents"], rows),
    ),
    make(
      "p",
      { class: "explanation" },
      "Everything on this page is in one JSON document: ",
      make("code", {}, "dtgfn report MODEL --json"),
      " prints it, ",
      make("code", {}, "model.report().to_dict()"),
      " returns it.",
    ),
  );
}
