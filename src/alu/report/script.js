"use strict";
// The page can be read without this script. It adds sorting, filtering, and words beside the points of charts.
(() => {
  // Sorting: a click on a column's title, or Enter on it, sorts by it; the second reverses, the third restores.
  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell || cell.colSpan > 1) return null;
    const figure = cell.querySelector("[data-value]");
    if (figure) return Number(figure.dataset.value);
    return cell.querySelector(".none, .few") ? null : cell.textContent.trim();
  };

  const compare = (first, second) =>
    typeof first === "number" && typeof second === "number"
      ? first - second
      : String(first).localeCompare(String(second), "en", { numeric: true });

  // A remark stays below its row; a heading begins its part of the table and stays first.
  const blocks = (part) => {
    const groups = [];
    for (const row of part.rows) {
      if (row.className === "remark" && groups.length) groups[groups.length - 1].push(row);
      else if (row.className !== "heading") groups.push([row]);
    }
    return groups;
  };

  const sort = (table, column, direction) => {
    for (const { part, rows } of table.parts) {
      const valued = rows.map((block) => [value(block[0], column), block]);
      if (direction) {
        valued.sort(([first], [second]) => {
          if (first === null || second === null) return (first === null) - (second === null); // nothing comes last
          return direction * compare(first, second);
        });
      }
      for (const [, block] of valued) part.append(...block);
    }
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    table.parts = [...table.tBodies].map((part) => ({ part, rows: blocks(part) }));
    if (!table.parts.some(({ rows }) => rows.length > 1)) continue;
    const titles = [...table.querySelectorAll("tr.columns th")];
    titles.forEach((title, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...title.childNodes);
      title.append(button);
      const first = column ? -1 : 1; // names from the first, figures from the highest
      let direction = 0;
      button.addEventListener("click", () => {
        const again = title.hasAttribute("aria-sort");
        direction = !again ? first : direction === first ? -first : 0;
        titles.forEach((other) => other.removeAttribute("aria-sort"));
        if (direction) title.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        sort(table, column, direction);
      });
    });
  }

  // Filtering: only the rows of attackers with this knowledge.
  for (const filter of document.querySelectorAll(".filter")) {
    const rows = filter.nextElementSibling.querySelectorAll("tbody tr");
    const choice = filter.querySelector("select");
    filter.hidden = false;
    choice.addEventListener("change", () => {
      for (const row of rows) row.hidden = choice.value !== "" && row.dataset.knowledge !== choice.value;
      const left = [...rows].filter((row) => !row.hidden && row.className !== "remark").length;
      filter.querySelector("[role=status]").textContent = choice.value ? `rows shown: ${left}` : "";
    });
  }

  // Tooltips: what a point or a line stands for, on hover and touch; with the arrow keys, point by point.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);

  const show = (text, x, y) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const below = y + 16 + tip.offsetHeight < window.innerHeight;
    tip.style.left = `${Math.max(4, Math.min(x + 12, window.innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${below ? y + 16 : y - tip.offsetHeight - 10}px`;
  };

  for (const drawing of document.querySelectorAll("svg")) {
    const words = new Map();
    for (const title of drawing.querySelectorAll("title")) {
      words.set(title.parentNode, title.textContent);
      title.remove(); // the browser would show it a second time
    }
    if (!words.size) continue;
    for (const kind of ["pointermove", "pointerdown"]) {
      drawing.addEventListener(kind, (event) => show(words.get(event.target), event.clientX, event.clientY));
    }
    drawing.addEventListener("pointerleave", () => show(""));
    const points = [...words.keys()].filter((shape) => shape.tagName === "circle");
    if (!points.length) continue;
    let at = -1;
    drawing.tabIndex = 0;
    drawing.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") show("");
      if (!step) return;
      event.preventDefault();
      at = at < 0 ? (step > 0 ? 0 : points.length - 1) : (at + step + points.length) % points.length;
      const place = points[at].getBoundingClientRect();
      show(words.get(points[at]), place.right, place.bottom);
    });
    drawing.addEventListener("blur", () => show(""));
  }
})();
