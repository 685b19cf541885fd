// Forest: answer a row from the trees in the report, as predict_proba and predict do.

// Stands for every category that training did not have.
const OTHER = Symbol("never seen");

// Whether a test holds of a value; null is a missing one.
function holds(test, value) {
  if ("at_most" in test) return value !== null && value <= test.at_most;
  if ("is" in test) return value !== null && value === test.is;
  if ("is_not" in test) return value !== test.is_not;
  if ("among" in test)
    return test.among.includes(value === null ? "missing" : value === OTHER ? "never seen" : value);
  return (value !== null) === test.present;
}

// Weighted sums of what the leaves hold that a row reaches; values are in the order of columns.
function leafSums(forest, values) {
  const holding = forest.tests.map((test) => holds(test, values[test.column]));
  const sums = [];
  const reached = [];
  for (const [root, weight] of forest.trees) {
    let place = root;
    while (place >= 0) {
      const [test, then, other] = forest.nodes[place];
      place = holding[test] ? then : other;
    }
    const leaf = forest.leaves[-1 - place];
    leaf.forEach((number, k) => (sums[k] = (sums[k] ?? 0) + weight * number));
    reached.push([weight, leaf]);
  }
  return { sums, reached };
}

const entropy = (p) => p.reduce((sum, each) => (each > 0 ? sum - each * Math.log(each) : sum), 0);

function sharpen(p, power) {
  if (power === 1) return p;
  const most = Math.max(...p);
  const raised = p.map((each) => (each / most) ** power);
  const total = raised.reduce((sum, each) => sum + each, 0);
  return raised.map((each) => each / total);
}

function answerClasses(forest, values) {
  const { sums } = leafSums(forest, values);
  const averaged = sums.slice(0, -1);
  const power = forest.sharpness ?? 1;
  let noise = Math.max(sums[sums.length - 1], 0);
  let model = Math.max(entropy(averaged) - noise, 0);
  const p = sharpen(averaged, power);
  // Sharpening says how much is not known, but not why: the shares stay.
  if (power !== 1 && noise + model > 0) {
    const change = entropy(p) / (noise + model);
    noise *= change;
    model *= change;
  }
  return { probability: p, uncertainty: { total: noise + model, noise, model } };
}

function answerNumbers(forest, values) {
  const { sums, reached } = leafSums(forest, values);
  const [mean, noisy, within] = sums;
  const sharpness = forest.sharpness ?? 1;
  const between = reached.reduce((sum, [weight, leaf]) => sum + weight * (leaf[0] - mean) ** 2, 0);
  const noise = noisy / sharpness;
  const model = (within + between) / sharpness;
  return { prediction: mean, uncertainty: { total: noise + model, noise, model } };
}

// Ids of the nodes that a row passes in one shown tree, from the root to its leaf.
function pathThrough(tree, values) {
  const nodes = new Map(tree.nodes.map((node) => [node.id, node]));
  let node = tree.nodes.find((each) => each.parent === null);
  const passed = [node.id];
  while (node.test) {
    node = nodes.get(holds(node.test, values[node.test.column]) ? node.then : node.else);
    passed.push(node.id);
  }
  return passed;
}
