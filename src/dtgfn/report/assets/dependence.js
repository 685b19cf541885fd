// Dependence: predictions as a function of one column, with a band over the posterior.

// A staircase over the bins between cuts, as wide outside as the cuts are apart.
function staircase(title, xName, yName, cuts, { mean, low, high }, fromZero) {
  const gap = cuts.length > 1 ? (cuts[cuts.length - 1] - cuts[0]) / (cuts.length - 1) : 1;
  const edges = [cuts[0] - gap, ...cuts, cuts[cuts.length - 1] + gap];
  const bins = edges.length - 1;
  const described = `From ${short(mean[0])} to ${short(mean[bins - 1])}`;
  return drawn({ class: "chart" }, (width) => {
    const height = 200;
    const svg = picture(width, height, title, described);
    const y = fromZero
      ? [0, 1]
      : padded([Math.min(...low.slice(0, bins)), Math.max(...high.slice(0, bins))]);
    const { toX, toY } = axes(svg, {
      ...{ width, height, x: [edges[0], edges[bins]], y, xName, yName, left: 56, top: 28 },
    });
    const steps = (values) =>
      values
        .slice(0, bins)
        .flatMap((value, k) => [
          `${toX(edges[k])},${toY(value)}`,
          `${toX(edges[k + 1])},${toY(value)}`,
        ]);
    const outline = [...steps(low), ...steps(high).reverse()];
    svg.append(
      draw("polygon", { points: outline.join(" "), class: "band" }),
      draw("polyline", { points: steps(mean).join(" "), class: "curve" }),
    );
    return svg;
  });
}

// What has no order, or is missing, as a row with its interval.
function valueTable(caption, values, { mean, low, high }, text) {
  const from = Math.min(0, ...low);
  const to = Math.max(...high, 1e-9);
  const rows = values.map((value, k) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, named(value)),
      make("td", { class: "wide" }, intervalBar(from, to, mean[k], low[k], high[k])),
      make("td", {}, text(mean[k])),
      make("td", { class: "muted" }, `${text(low[k])} to ${text(high[k])}`),
    ),
  );
  return table(caption, ["value", "", "prediction", "interval"], rows);
}

function dependenceFigure({ column, values, cuts, outputs }, classes) {
  return outputs.map((output) => {
    const said = classes ? `P(${output.name})` : "prediction";
    const title = `${said} by ${column}`;
    const text = classes ? probability : (number) => short(number);
    const ordered = cuts?.length;
    const drawing = ordered
      ? staircase(title, column, said, cuts, output, Boolean(classes))
      : make("div", { class: "importances" }, valueTable(title, values, output, text));
    const missing = ordered && values.length > cuts.length + 1;
    const last = values.length - 1;
    const words = missing
      ? make("small", {}, ` where it is missing: ${text(output.mean[last])}`)
      : "";
    return figure(make("span", {}, named(title), words), drawing);
  });
}

function dependenceSection({ dependence, fit }) {
  if (!dependence?.length) return null;
  return section(
    "dependence",
    "How predictions depend on a column",
    "What is predicted, on average over training rows, if the column had another value in every row; the band holds 90 % of the draws.",
    make(
      "div",
      { class: "pair" },
      ...dependence.flatMap((each) => dependenceFigure(each, fit.classes)),
    ),
  );
}
