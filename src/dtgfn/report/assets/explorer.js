// Row explorer: pick or type a row, and see what the trees say of it and how sure they are.

const MOST_FIELDS = 12; // before they are folded away

function uncertaintySentence({ total, model }, task, top) {
  if (task === "classes" && total < 0.05 * top)
    return "Hardly any doubt: the trees agree, and so do the rows they have seen here.";
  const share = total > 0 ? model / total : 0;
  if (share > 0.6)
    return "Mostly model: the trees do not agree here, or few rows were like this one. More such rows would help.";
  if (share < 0.25)
    return "Mostly noise: rows like this one differ by themselves. More rows would hardly help.";
  return "Part noise, which stays, and part model, which more rows like this one would remove.";
}

function uncertaintyBar({ total, noise }, scaleTop) {
  return drawn({ class: "doubt" }, (width) => {
    const svg = picture(
      width,
      18,
      "Uncertainty",
      "Noise first, then model, on a line up to the most that is possible",
    );
    const all = width * Math.min(total / scaleTop, 1);
    const first = total > 0 ? (all * noise) / total : 0;
    svg.append(
      draw("rect", { x: 0.5, y: 3.5, width: width - 1, height: 11, class: "frame" }),
      draw("rect", { x: 0.5, y: 3.5, width: Math.max(first - 0.5, 0), height: 11, class: "noise" }),
      draw("rect", {
        x: Math.max(first, 0.5),
        y: 3.5,
        width: Math.max(all - first, 0),
        height: 11,
        class: "model",
      }),
    );
    return svg;
  });
}

class RowExplorer {
  constructor(report, browser) {
    this.report = report;
    this.browser = browser;
    this.fields = report.columns.map((column, k) => field(column, k, () => this.typed()));
    this.fields.forEach((each, k) => each.write(middleOf(report.columns[k])));
    this.picker = make("select", { id: newId("pick") });
    this.answer = make("div", { class: "answer" });
    this.spoken = make("p", { class: "hidden", "aria-live": "polite" }); // a whole table is too much
    this.steps = make("div", { class: "steps" });
    this.picked = null;
    const rows = report.rows ?? [];
    this.picker.append(...rows.map((row, k) => make("option", { value: k }, row.name)));
    if (report.forest) this.picker.append(make("option", { value: "own" }, "a row of your own"));
    this.picker.addEventListener("change", () => this.pick(this.picker.value));
    browser?.listeners.push(() => this.showSteps());
    this.pick(rows.length ? 0 : "own");
  }

  element() {
    const used = this.usedColumns();
    const places = this.byImportance();
    const asked = places.filter((k) => used.has(k));
    const others = places.filter((k) => !used.has(k));
    const inputs = make("form", { class: "inputs", "aria-label": "Values of the row" });
    inputs.addEventListener("submit", (event) => event.preventDefault());
    inputs.append(
      make(
        "div",
        { class: "field picker" },
        make("label", { for: this.picker.id }, "Row"),
        this.picker,
      ),
      make(
        "fieldset",
        { disabled: !this.report.forest }, // without trees there is no answer to a typed row
        make("legend", { class: "hidden" }, "Values"),
        this.fieldGroup(asked.slice(0, MOST_FIELDS)),
        this.foldedFields(asked.slice(MOST_FIELDS), "more column", "that trees ask about"),
        this.foldedFields(
          others,
          "column",
          this.report.forest ? "that no tree asks about" : "that no shown tree asks about",
        ),
      ),
    );
    return make(
      "div",
      { class: "explorer" },
      inputs,
      make("div", { class: "outcome" }, this.spoken, this.answer, this.steps),
    );
  }

  fieldGroup(places) {
    return make("div", { class: "fields" }, ...places.map((k) => this.fields[k].element));
  }

  foldedFields(places, word, which) {
    if (!places.length) return "";
    const summary = make("summary", {}, `${counted(places.length, word)} ${which}`);
    return make("details", {}, summary, this.fieldGroup(places));
  }

  // Places of the columns, the most important first.
  byImportance() {
    const rank = new Map((this.report.importances ?? []).map(({ name }, k) => [name, k]));
    const columns = this.report.columns;
    const of = (k) => rank.get(columns[k].name) ?? rank.size;
    return columns.map((_, k) => k).sort((a, b) => of(a) - of(b));
  }

  usedColumns() {
    const { forest, trees, columns } = this.report;
    if (!forest && !trees.length) return new Set(columns.keys()); // sums of trees ask about all
    const tests = [...(forest?.tests ?? [])];
    for (const tree of trees)
      tests.push(...tree.nodes.flatMap((node) => node.test ?? []));
    return new Set(tests.map((test) => test.column));
  }

  pick(place) {
    this.picked = place === "own" ? null : this.report.rows[Number(place)];
    this.picker.value = String(place);
    const values = this.picked?.values ?? {};
    this.fields.forEach((each, k) => {
      const column = this.report.columns[k];
      if (column.name in values) each.write(values[column.name]); // a wide table's rows lack what no tree asks
    });
    this.update();
  }

  typed() {
    this.picked = null;
    this.picker.value = "own";
    this.update();
  }

  update() {
    const values = this.fields.map((each) => each.read());
    this.values = values.includes(undefined) ? null : values;
    this.browser?.follow(this.values, this.picked?.name ?? "your row");
    this.answer.replaceChildren(...this.answerParts());
    this.spoken.textContent = (this.answer.querySelector(".headline") ?? this.answer).textContent;
    this.showSteps();
  }

  answerParts() {
    if (this.values === null)
      return [make("p", {}, "One value is no number; mend it to see an answer.")];
    if (this.picked) return this.shown(this.picked, this.noteOfPicked());
    const { forest, fit } = this.report;
    const answer =
      fit.task === "numbers"
        ? answerNumbers(forest, this.values)
        : answerClasses(forest, this.values);
    return this.shown(answer, this.noteOfTyped());
  }

  noteOfPicked() {
    const { forest, fit } = this.report;
    const truth =
      this.picked.truth === null || this.picked.truth === undefined
        ? ""
        : `Truth: ${this.picked.truth}. `;
    const name = { classes: "predict_proba", numbers: "predict", anomalies: "score_samples" }[
      fit.task
    ];
    const exact = forest?.exact_average ? ", summed over all trees" : "";
    return `${truth}Exactly what ${name} says${exact}.`;
  }

  noteOfTyped() {
    const {
      n_trees: all,
      n_used: used,
      mean_difference: gap,
      exact_average: exact,
      note,
    } = this.report.forest;
    const trees =
      used < all
        ? `the ${counted(used, "heaviest tree")} of ${short(all, 6)}`
        : `all ${counted(all, "distinct tree")} at hand`;
    const who = `Rows you type are answered by ${trees}`;
    const far =
      gap === null || gap === undefined || gap < 1e-6
        ? ""
        : `; on the rows above they differ from the model by ${short(gap, 2)} on average`;
    const same = !exact && !far ? ", with the numbers of the model itself" : far;
    return [note, `${who}${same}.`].filter(Boolean).join(" ");
  }

  shown(answer, note) {
    const { fit } = this.report;
    const parts =
      fit.task === "numbers"
        ? this.shownNumber(answer)
        : answer.probability
          ? this.shownClasses(answer)
          : this.shownVerdict(answer);
    if (answer.uncertainty) parts.push(...this.shownUncertainty(answer.uncertainty));
    parts.push(make("p", { class: "note" }, note));
    return parts;
  }

  shownClasses({ probability: p }) {
    const names = this.report.fit.classes;
    const best = p.indexOf(Math.max(...p));
    let order = p.map((_, k) => k);
    if (p.length > 8) order = order.sort((a, b) => p[b] - p[a]).slice(0, 8);
    const rows = order.map((k) => {
      const track = drawn({ class: "track" }, (width) => {
        const svg = draw("svg", { width, height: 14, "aria-hidden": "true", focusable: "false" });
        svg.append(block(0.5, 1.5, Math.max((width - 1) * p[k], 0.5), 11, k));
        return svg;
      });
      return make(
        "tr",
        { "data-class": k, "data-probability": p[k], class: k === best ? "best" : null },
        make("th", { scope: "row" }, named(names[k])),
        make("td", { class: "wide" }, track),
        make("td", {}, probability(p[k])),
      );
    });
    return [
      make(
        "p",
        { class: "headline" },
        named(names[best]),
        make("span", {}, ` ${probability(p[best])}`),
      ),
      table("Probability of each class", ["class", "", "probability"], rows),
      p.length > order.length
        ? make("p", { class: "note" }, `and ${p.length - order.length} less likely classes`)
        : null,
    ].filter(Boolean);
  }

  shownNumber({ prediction, interval, uncertainty }) {
    const spread = Math.sqrt(uncertainty?.total ?? 0);
    const reach = 1.6449 * spread;
    const words = interval
      ? `90 % interval: ${short(interval[0])} to ${short(interval[1])}`
      : `roughly ${short(prediction - reach)} to ${short(prediction + reach)} (90 %, from the spread)`;
    return [
      make(
        "p",
        { class: "headline", "data-prediction": prediction },
        short(prediction, 5),
        make("span", {}, ` ± ${short(spread, 2)}`),
      ),
      make("p", {}, words),
    ];
  }

  shownVerdict({ prediction, score }) {
    const { anomaly } = this.report;
    const known = score !== undefined && score !== null && anomaly;
    const words = known
      ? `Score ${short(score)}; below ${short(anomaly.offset)} a row is called an anomaly.`
      : "";
    return [
      make("p", { class: "headline", "data-score": score }, named(prediction)),
      make("p", {}, words),
    ];
  }

  shownUncertainty(parts) {
    const { fit } = this.report;
    const classes = fit.task === "classes";
    const top = classes ? Math.log(Math.max(fit.classes.length, 2)) : parts.total || 1;
    const amount = (key) => (classes ? short(parts[key], 3) : percent(parts[key] / top));
    const value = (key) =>
      make("span", { class: `part ${key}`, [`data-${key}`]: parts[key] }, `${key} ${amount(key)}`);
    const total = classes
      ? `total ${short(parts.total, 3)} of at most ${short(top, 3)} nats`
      : `of a variance of ${short(parts.total)}`;
    return [
      make("h3", {}, "Uncertainty"),
      uncertaintyBar(parts, top),
      make(
        "p",
        { class: "parts" },
        value("noise"),
        value("model"),
        make("span", { "data-total": parts.total }, total),
      ),
      make("p", {}, uncertaintySentence(parts, fit.task, top)),
    ];
  }

  // The path through the shown tree in words.
  showSteps() {
    const tree = this.browser?.tree;
    if (!tree || this.values === null) return this.steps.replaceChildren();
    const nodes = byId(tree);
    const path = pathThrough(tree, this.values);
    const items = path.slice(0, -1).map((id, k) => {
      const node = nodes.get(id);
      return make("li", {}, named(node.then === path[k + 1] ? node.rule : node.other));
    });
    const leaf = nodes.get(path[path.length - 1]);
    const votes =
      this.report.fit.task === "classes"
        ? `${isolated(leaf.vote)} (${said(this.report, leaf)})`
        : ({ numbers: said(this.report, leaf) }[this.report.fit.task] ?? leaf.vote);
    const held = this.steps.contains(document.activeElement);
    this.steps.replaceChildren(
      make("h3", {}, `Its path through tree ${tree.rank}`),
      items.length ? make("ol", {}, ...items) : make("p", {}, "This tree asks nothing."),
      make(
        "p",
        {},
        "There the tree says ",
        named(votes),
        `, from ${counted(leaf.rows, "training row")}. The path is lit `,
        make("a", { href: "#trees" }, "in the drawing"),
        ".",
      ),
      ...this.votes(),
    );
    if (held) this.steps.querySelector("[aria-current]").focus({ preventScroll: true });
    return undefined;
  }

  // What all shown trees say, if there are several.
  votes() {
    const trees = this.report.trees;
    if (trees.length < 2) return [];
    const items = trees.map((tree, place) => make("li", {}, this.vote(tree, place)));
    return [
      make("h3", { class: "votes-title" }, `What each of the ${trees.length} shown trees says of it`),
      make("ol", { class: "votes" }, ...items),
    ];
  }

  // What one tree says of the row, with its lit path; a button that shows this tree.
  vote(tree, place) {
    const path = pathThrough(tree, this.values);
    const leaf = byId(tree).get(path[path.length - 1]);
    const words =
      { classes: leaf.vote, numbers: short(leaf.value[0]) }[this.report.fit.task] ??
      said(this.report, leaf);
    const button = make(
      "button",
      {
        type: "button",
        "aria-current": place === this.browser.place ? "true" : null,
        "aria-label": `Tree ${tree.rank} says ${words}: show it`,
      },
      thumbnail(this.report, tree, path),
      make("span", {}, named(words)),
    );
    button.addEventListener("click", () => this.browser.show(place));
    return button;
  }
}
