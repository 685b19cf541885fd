// Row fields: an input for each column, by its kind, with a way to say that a value is missing.

const MISSING = "missing";

// The input of one column; `read()` gives its value, null if missing, undefined if unreadable.
function field(column, place, onInput) {
  const id = newId("field");
  const label = make(
    "label",
    { for: id },
    named(column.label || column.name),
    column.unit ? make("span", { class: "unit" }, ` ${column.unit}`) : null,
  );
  const made =
    column.kind === "number" ? numberField(column, id, onInput) : choiceField(column, id, onInput);
  return {
    ...made,
    element: make("div", { class: "field", "data-column": place }, label, ...made.parts),
  };
}

function numberField(column, id, onInput) {
  const known = column.low !== null && column.high !== null && column.low !== undefined;
  const hint = known ? `${short(column.low)} to ${short(column.high)}` : "";
  const hintId = newId("hint");
  const input = make("input", {
    id,
    type: "number",
    step: "any",
    inputmode: "decimal",
    autocomplete: "off",
    "aria-describedby": hintId,
  });
  const note = make("small", { id: hintId }, hint);
  const parts = [input, note];
  let box = null;
  if (column.has_missing) {
    const boxId = newId("missing");
    box = make("input", { id: boxId, type: "checkbox" });
    parts.push(
      make(
        "span",
        { class: "missing" },
        box,
        make(
          "label",
          { for: boxId },
          "missing",
          make("span", { class: "hidden" }, ` ${column.name}`),
        ),
      ),
    );
    box.addEventListener("change", () => {
      if (box.checked) input.value = "";
      onInput();
    });
  }
  input.addEventListener("input", () => {
    if (box) box.checked = input.value === "" && !input.validity.badInput;
    onInput();
  });
  const hintOf = (text) => {
    if (text === "") return column.has_missing ? hint : "empty: taken as missing";
    const beyond = known && (Number(text) < column.low || Number(text) > column.high);
    return beyond ? `${hint}; all beyond get the same answer` : hint;
  };
  const read = () => {
    const bad = input.validity.badInput;
    input.setAttribute("aria-invalid", String(bad));
    note.textContent = bad ? "not a number" : hintOf(input.value);
    return bad ? undefined : input.value === "" ? null : input.valueAsNumber;
  };
  const write = (value) => {
    input.value = value === null || value === undefined ? "" : String(value);
    if (box) box.checked = input.value === "";
  };
  return { parts, read, write };
}

function choiceField(column, id, onInput) {
  const texts = column.kind === "boolean" ? ["false", "true"] : column.categories;
  const select = make(
    "select",
    { id },
    ...texts.map((text, k) =>
      make("option", { value: k }, column.category_labels?.[text] ?? text),
    ),
  );
  if (column.kind === "category") select.append(make("option", { value: "other" }, "another one"));
  const missing = make("option", { value: MISSING }, "missing");
  if (column.has_missing) select.append(missing);
  select.addEventListener("change", onInput);
  const read = () => {
    if (select.value === MISSING) return null;
    if (column.kind === "boolean") return select.value === "1";
    return select.value === "other" ? OTHER : texts[Number(select.value)];
  };
  const write = (value) => {
    if (value === null || value === undefined) {
      select.append(missing); // a row may lack what training always had
      select.value = MISSING;
      return;
    }
    const text =
      column.kind === "boolean"
        ? String(value === true || value === 1 || value === "true" || value === "True")
        : String(value);
    const place = texts.indexOf(text);
    select.value = place < 0 ? "other" : String(place);
  };
  return { parts: [select], read, write };
}

// Something to begin with, before a row is picked.
function middleOf(column) {
  if (column.kind === "number")
    return column.thresholds?.length ? column.thresholds[column.thresholds.length >> 1] : 0;
  return column.kind === "boolean" ? false : (column.categories[0] ?? null);
}
