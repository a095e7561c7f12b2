"use strict";
// Each table shows a part of its rows, so that one with thousands of them opens at once. Texts only
// ever become the text of a node.
(() => {
  const FIRST = 50, STEP = 200;

  class Listing {
    constructor(root) {
      const data = JSON.parse(root.querySelector("script").textContent);
      this.columns = data.columns;
      this.rows = data.rows;
      this.noun = data.noun;
      this.body = root.querySelector("tbody");
      this.heads = [...root.querySelectorAll("thead th")];
      this.shown = root.querySelector(".shown");
      this.more = root.querySelector(".more");
      this.limit = FIRST;
      this.order = [...Array(this.rows).keys()];
      this.sorted = null;
      this.wanted = "";
      this.words = this.order.map((row) => this.textOf(row));
      const search = root.querySelector("input");
      search.addEventListener("input", () => {
        this.wanted = search.value.trim().toLowerCase();
        this.limit = FIRST;
        this.draw();
      });
      this.heads.forEach((head, place) =>
        head.querySelector("button").addEventListener("click", () => this.sort(place)));
      this.more.addEventListener("click", () => { this.limit += STEP; this.draw(); });
      this.draw();
    }

    textOf(row) {
      return this.columns.filter((column) => !column.number)
        .map((column) => column.texts[row] + "\n" + (column.titles[row] ?? ""))
        .join("\n").toLowerCase();
    }

    sort(place) {
      const column = this.columns[place];
      // what one wants to see of numbers first is the largest
      const first = column.number ? "descending" : "ascending";
      const second = column.number ? "ascending" : "descending";
      const again = this.sorted === place + first;
      const direction = again ? second : first;
      this.sorted = place + direction;
      const sign = direction === "ascending" ? 1 : -1;
      const compare = column.number ? Listing.byNumber(column, sign) : Listing.byText(column, sign);
      this.order.sort((a, b) => compare(a, b) || a - b);
      this.heads.forEach((head, i) =>
        i === place ? head.setAttribute("aria-sort", direction) : head.removeAttribute("aria-sort"));
      this.draw();
    }

    static byNumber(column, sign) {
      const values = column.values;
      return (a, b) => {
        const x = values[a], y = values[b];
        // what has no number is last, either way
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (x - y);
      };
    }

    static byText(column, sign) {
      const texts = column.texts;
      return (a, b) => sign * texts[a].localeCompare(texts[b], "en", { numeric: true });
    }

    draw() {
      const found = this.wanted === ""
        ? this.order : this.order.filter((row) => this.words[row].includes(this.wanted));
      const part = found.slice(0, this.limit);
      this.body.replaceChildren(...part.map((row) => this.rowOf(row)));
      const all = this.rows.toLocaleString("en"), some = found.length.toLocaleString("en");
      const matching = this.wanted === "" ? `${all} ${this.noun}` : `${some} of ${all} ${this.noun}`;
      const rest = found.length - part.length;
      this.shown.textContent = rest ? `${matching}, ${part.length} shown` : matching;
      this.more.hidden = rest === 0;
      this.more.textContent = `Show ${Math.min(rest, STEP).toLocaleString("en")} more`;
    }

    rowOf(row) {
      const line = document.createElement("tr");
      for (const column of this.columns) {
        const cell = document.createElement("td");
        cell.textContent = column.texts[row];
        if (column.number) cell.className = "number";
        if (column.alarm && column.values[row]) cell.classList.add("alarm");
        if (column.titles[row] !== undefined) cell.title = column.titles[row];
        line.append(cell);
      }
      return line;
    }
  }

  for (const root of document.querySelectorAll(".listing")) new Listing(root);
})();
