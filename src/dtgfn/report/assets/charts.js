// Charts: bars, curves, points and tables of shades, each drawn for the width it is given.

// Round numbers from low to high, about so many.
function ticks(low, high, about = 4) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / about));
  const step = [1, 2, 5, 10]
    .map((times) => times * power)
    .find((size) => span / size <= about + 0.5);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k++)
    found.push(k * step);
  return found;
}

const tickText = (number, span) =>
  short(Math.abs(number) < span * 1e-9 ? 0 : Number(number.toPrecision(12)), 5);

const scale = (low, high, from, to) => (number) =>
  from + ((to - from) * (number - low)) / (high - low || 1);

// A frame with ticks; gives back where a point goes.
function axes(
  svg,
  { width, height, x, y, xName, yName, left = 48, right = 12, top = 12, bottom = 40, xTicks },
) {
  const toX = scale(...x, left, width - right);
  const toY = scale(...y, height - bottom, top);
  for (const number of ticks(...y, 5)) {
    svg.append(
      draw("line", {
        x1: left,
        x2: width - right,
        y1: toY(number),
        y2: toY(number),
        class: "grid",
      }),
      line(tickText(number, y[1] - y[0]), left - 6, toY(number) + 4, {
        class: "tick",
        "text-anchor": "end",
      }),
    );
  }
  for (const number of xTicks ?? ticks(...x, Math.max(2, Math.floor(width / 110)))) {
    const text = tickText(number, x[1] - x[0]);
    svg.append(
      line(text, toX(number), height - bottom + 16, { class: "tick", "text-anchor": "middle" }),
    );
  }
  const middle = (left + width - right) / 2;
  svg.append(line(xName, middle, height - 4, { class: "tick", "text-anchor": "middle" }));
  if (yName) svg.append(line(yName, left, top - 12, { class: "tick" }));
  return { toX, toY };
}

// Probabilities of 0, 1, 2, ...
function distribution(title, name, probabilities) {
  const spoken = probabilities.map((p, k) => `${k}: ${probability(p)}`).join(", ");
  return drawn({ class: "chart" }, (width) => {
    const [height, bottom, top] = [190, 38, 22];
    const svg = picture(width, height, title, spoken);
    const most = Math.max(...probabilities, 1e-9);
    const step = (width - 8) / probabilities.length;
    const wide = Math.min(step * 0.72, 52);
    const every = Math.ceil(26 / step);
    probabilities.forEach((p, k) => {
      const x = 4 + step * (k + 0.5);
      const tall = ((height - bottom - top) * p) / most;
      const y = height - bottom - tall;
      const mark = draw("rect", { x: x - wide / 2, y, width: wide, height: tall, class: "bar" });
      mark.append(draw("title", {}, `${name} ${k}: ${probability(p)}`));
      svg.append(mark);
      if (step > 44 ? p > 0 : step > 26 && p >= 0.005) {
        const words = step > 44 ? probability(p) : p.toFixed(2);
        svg.append(line(words, x, y - 5, { class: "tick", "text-anchor": "middle" }));
      }
      if (k % every === 0) {
        svg.append(
          line(String(k), x, height - bottom + 16, { class: "tick", "text-anchor": "middle" }),
        );
      }
    });
    svg.append(
      draw("line", { x1: 0, x2: width, y1: height - bottom, y2: height - bottom, class: "axis" }),
      line(name, width / 2, height - 4, { class: "tick", "text-anchor": "middle" }),
    );
    return svg;
  });
}

// One number and its interval on a line from low to high.
function intervalBar(low, high, value, from, to) {
  const svg = draw("svg", {
    class: "interval",
    height: 16,
    "aria-hidden": "true",
    focusable: "false",
  });
  const at = (number) =>
    `${Math.min(Math.max(((number - low) / (high - low || 1)) * 100, 0), 100)}%`;
  svg.append(
    draw("line", { x1: at(Math.max(low, 0)), x2: at(value), y1: 8, y2: 8, class: "amount" }),
  );
  if (from !== null && to !== null) {
    svg.append(draw("line", { x1: at(from), x2: at(to), y1: 8, y2: 8, class: "whisker" }));
  }
  svg.append(draw("circle", { cx: at(value), cy: 8, r: 4, class: "point" }));
  return svg;
}

// A curve over steps or seconds; a number that is known beforehand as a dashed line.
function curve(title, xName, unit, x, y, known) {
  const points = x
    .map((at, k) => [at, y[k]])
    .filter(([, value]) => value !== null && isFinite(value));
  const last = points.length ? points[points.length - 1][1] : null;
  const values = points.map(([, value]) => value);
  const described = `From ${short(values[0])} to ${short(last)} ${unit ?? ""}`;
  return drawn({ class: "chart" }, (width) => {
    const height = 200;
    const svg = picture(width, height, title, described);
    const rangeY = padded(curveRange(values, known));
    const rangeX = [Math.min(...x), Math.max(...x)];
    const { toX, toY } = axes(svg, { width, height, x: rangeX, y: rangeY, xName, left: 56 });
    if (known !== null) {
      svg.append(
        draw("line", { x1: 56, x2: width - 12, y1: toY(known), y2: toY(known), class: "known" }),
      );
    }
    svg.append(
      draw("polyline", {
        points: points.map(([a, b]) => `${toX(a)},${toY(b)}`).join(" "),
        class: "curve",
      }),
    );
    if (points.length < 2 && last !== null) {
      svg.append(draw("circle", { cx: toX(points[0][0]), cy: toY(last), r: 3, class: "point" }));
    }
    return svg;
  });
}

// A wild beginning must not flatten the rest: it may leave the picture.
function curveRange(values, known) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  const ends = [at(0), at(1)];
  const core = [at(0.05), at(0.95)];
  const room = 3 * (core[1] - core[0]);
  const low = core[0] - ends[0] > room ? core[0] : ends[0];
  const high = ends[1] - core[1] > room ? core[1] : ends[1];
  return known === null ? [low, high] : [Math.min(low, known), Math.max(high, known)];
}

function padded([low, high]) {
  const size = Math.max(Math.abs(low), Math.abs(high));
  const flat = high - low <= 1e-9 * size; // but for rounding: there must be room for ticks
  const room = flat ? Math.min(size, 2) / 2 || 1 : (high - low) * 0.06;
  return [low - room, high + room];
}

// What was said against what came true, with the number of rows behind each point.
function reliability(bins) {
  const full = bins.filter((bin) => bin.rows > 0);
  const most = Math.max(...full.map((bin) => bin.rows), 1);
  const words = (bin) =>
    `said ${probability(bin.mean_probability)}, right ${probability(bin.share_right)}, ${counted(bin.rows, "row")}`;
  return drawn({ class: "chart square" }, (given) => {
    const width = Math.min(given, 420);
    const height = Math.min(width, 360);
    const svg = picture(width, height, "Calibration on held-out rows", full.map(words).join("; "));
    const { toX, toY } = axes(svg, {
      ...{ width, height, x: [0, 1], y: [0, 1], xName: "probability said", yName: "share right" },
      ...{ top: 28, xTicks: [0, 0.2, 0.4, 0.6, 0.8, 1] },
    });
    svg.append(draw("line", { x1: toX(0), y1: toY(0), x2: toX(1), y2: toY(1), class: "known" }));
    const points = full.map((bin) => `${toX(bin.mean_probability)},${toY(bin.share_right)}`);
    svg.append(draw("polyline", { points: points.join(" "), class: "curve thin" }));
    for (const bin of full) {
      const mark = draw("circle", {
        cx: toX(bin.mean_probability),
        cy: toY(bin.share_right),
        r: 3 + 7 * Math.sqrt(bin.rows / most),
        class: "point soft",
      });
      mark.append(draw("title", {}, words(bin)));
      svg.append(mark);
    }
    return svg;
  });
}

// Truth against prediction, each with its interval.
function scatter(points) {
  const all = points.flat().filter((number) => number !== null);
  const range = padded([Math.min(...all), Math.max(...all)]);
  return drawn({ class: "chart square" }, (given) => {
    const width = Math.min(given, 560);
    const height = Math.min(width, 420);
    const svg = picture(
      ...[width, height, "Predictions of held-out rows"],
      `${points.length} rows: truth against prediction with its interval`,
    );
    const frame = {
      width,
      height,
      x: range,
      y: range,
      xName: "prediction",
      yName: "truth",
      left: 56,
      top: 28,
    };
    const { toX, toY } = axes(svg, frame);
    const ends = { x1: toX(range[0]), y1: toY(range[0]), x2: toX(range[1]), y2: toY(range[1]) };
    svg.append(draw("line", { ...ends, class: "known" }));
    for (const [truth, said, low, high] of points) {
      const y = toY(truth);
      svg.append(draw("line", { x1: toX(low), x2: toX(high), y1: y, y2: y, class: "reach" }));
    }
    for (const [truth, said, low, high] of points) {
      const mark = draw("circle", { cx: toX(said), cy: toY(truth), r: 3, class: "point soft" });
      const words = `truth ${short(truth)}, prediction ${short(said)} (${short(low)} to ${short(high)})`;
      mark.append(draw("title", {}, words));
      svg.append(mark);
    }
    return svg;
  });
}

// Counts between edges, with a threshold.
function histogram(title, name, edges, counts, threshold) {
  const below = counts.reduce((sum, n, k) => (edges[k + 1] <= threshold ? sum + n : sum), 0);
  const described = `${counted(
    counts.reduce((a, b) => a + b, 0),
    "row",
  )}; threshold ${short(threshold)}, about ${short(below)} below it`;
  return drawn({ class: "chart" }, (width) => {
    const height = 240;
    const svg = picture(width, height, title, described);
    const x = [Math.min(edges[0], threshold), Math.max(edges[edges.length - 1], threshold)];
    const frame = {
      width,
      height,
      x,
      y: [0, Math.max(...counts, 1) * 1.12],
      xName: name,
      yName: "rows",
      top: 30,
    };
    const { toX, toY } = axes(svg, frame);
    counts.forEach((n, k) => {
      const [from, to] = [toX(edges[k]), toX(edges[k + 1])];
      const side = edges[k + 1] <= threshold ? "bar odd" : "bar";
      const mark = draw("rect", {
        x: from,
        y: toY(n),
        width: Math.max(to - from - 1, 0.5),
        height: toY(0) - toY(n),
        class: side,
      });
      mark.append(
        draw("title", {}, `${short(edges[k])} to ${short(edges[k + 1])}: ${counted(n, "row")}`),
      );
      svg.append(mark);
    });
    const at = toX(threshold);
    const right = at < width / 2;
    const words = `threshold ${short(threshold)}: anomalies to the left`;
    svg.append(
      draw("line", { x1: at, x2: at, y1: 18, y2: toY(0), class: "known" }),
      line(words, right ? at + 6 : at - 6, 26, {
        class: "tick halo",
        "text-anchor": right ? "start" : "end",
      }),
    );
    return svg;
  });
}

// A table whose cells are shaded by a share from 0 to 1.
function shades(caption, rowNames, columnNames, cells) {
  const head = columnNames.map((name) =>
    make("th", { scope: "col", title: name }, make("span", {}, named(name))),
  );
  const rows = rowNames.map((name, k) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", title: name }, named(name)),
      ...cells[k].map(({ text, shade, apart }) => {
        const cell = make("td", { class: apart ? "apart" : null }, text);
        cell.style.setProperty("--shade", `${Math.round(Math.min(Math.max(shade, 0), 1) * 100)}%`);
        return cell;
      }),
    ),
  );
  return make(
    "table",
    { class: "shades" },
    make("caption", { class: "hidden" }, caption),
    make("thead", {}, make("tr", {}, make("td", {}), ...head)),
    make("tbody", {}, ...rows),
  );
}
