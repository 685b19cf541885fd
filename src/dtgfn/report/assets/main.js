// Main: read the report, put the sections in their order, and wire the page.

function treesSection(report, browser) {
  const classes = report.fit.classes;
  const keys = "Arrow keys left and right change the tree; up and down move through its nodes.";
  const dense =
    "A leaf tells how many times as dense training rows are there as the background: below 1 it is empty.";
  const variants =
    "Trees that differ only in thresholds between the same two training values are variants: they count as one here, with the probability of all of them. ";
  const shares = "How probable they are is told by their share of the drawn trees. ";
  const grouped = [
    report.trees.some((tree) => tree.variants > 1) ? variants : "",
    report.trees.some((tree) => tree.by_share) ? shares : "",
    report.holding ? `${report.holding} ` : "",
  ].join("");
  const width = `${grouped}${report.fit.task === "anomalies" ? `${dense} ` : ""}The thicker a line, the more rows take it.`;
  return section(
    "trees",
    report.fit.task === "anomalies" ? "The most telling trees" : "The most probable trees",
    report.trees.length > 1
      ? `${width} Point at a node, or go to it with the keyboard, for its numbers. ${keys}`
      : `${width} Point at a node for its numbers.`,
    classes ? legend(classes) : null,
    browser.element(),
  );
}

function explorerSection(report, browser) {
  const explorer = new RowExplorer(report, browser);
  const words = report.forest
    ? "Pick a row or type one: the answer follows at once."
    : "Pick a row to see what is said of it.";
  return section("explorer", "Ask about a row", words, explorer.element());
}

function contents(sections) {
  const nav = document.getElementById("contents");
  const links = sections.map((each) =>
    make("li", {}, make("a", { href: `#${each.id}` }, each.querySelector("h2").textContent)),
  );
  nav.append(make("ul", {}, ...links));
  nav.hidden = false;
}

// Light or dark as the system says, until the reader says otherwise; nothing is stored.
function wireTheme() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () =>
    (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  system.addEventListener("change", label);
  button.setAttribute("aria-label", "Switch between light and dark");
  button.hidden = false;
  label();
}

// Within a notebook's frame a link to a section would open the notebook itself in the frame.
function wireLinks() {
  if (location.protocol !== "about:") return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link) return;
    event.preventDefault();
    const target = document.getElementById(link.getAttribute("href").slice(1));
    scrollTo({ top: scrollY + target.getBoundingClientRect().top });
    target.setAttribute("tabindex", "-1");
    target.focus({ preventScroll: true });
  });
}

// What columns mean, wherever the report lists them by their names.
function callColumns(report) {
  const titles = new Map(report.columns.map(({ name, title }) => [name, title ?? name]));
  const called = (name) => titles.get(name) ?? name;
  for (const row of report.importances ?? []) row.title = called(row.name);
  for (const each of report.dependence ?? []) each.column = called(each.column);
  if (report.co_occurrence) report.co_occurrence.names = report.co_occurrence.names.map(called);
}

function start() {
  const report = JSON.parse(document.getElementById("report").textContent);
  callColumns(report);
  const main = document.getElementById("content");
  const browser = report.trees?.length ? new TreeBrowser(report) : null;
  const answers = report.forest || report.rows?.length;
  const sections = [
    browser && treesSection(report, browser),
    answers && explorerSection(report, browser),
    anomalySection(report),
    importancesSection(report),
    dependenceSection(report),
    heldOutSection(report),
  ].filter(Boolean);
  const folded = [
    sizesSection(report),
    coOccurrenceSection(report),
    historySection(report),
    detailsSection(report),
  ].filter(Boolean);
  const experts = document.getElementById("experts");
  experts.before(...sections);
  experts.append(...folded);
  contents([document.getElementById("short"), ...sections, experts].filter(Boolean));
  wireTheme();
  wireLinks();
}

start();
