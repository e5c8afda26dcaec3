// What forms do with a script: they look for names while somebody writes, and have as many rows as somebody needs.
// It makes no HTML from text, and asks no other site.
(() => {
  "use strict";

  const WAIT_MS = 150;
  // More than that are written in the notation of the command line.
  const MAX_ROWS = 12;

  function offer(field, names) {
    field.list.replaceChildren(...names.map((name) => {
      const option = document.createElement("option");
      option.value = name;
      return option;
    }));
  }

  // The names that fit what stands in a field, in the list that belongs to it.
  for (const field of document.querySelectorAll("input[data-choices]")) {
    let timer = 0;
    let asked = field.value;
    const ask = async () => {
      const text = field.value.trim();
      if (text === asked) return;
      asked = text;
      const query = new URLSearchParams({ kind: field.dataset.choices, text });
      const answer = await fetch("/choices?" + query, { headers: { accept: "application/json" } }).catch(() => null);
      if (!answer?.ok) return;
      const names = await answer.json();
      // Somebody wrote on meanwhile.
      if (asked !== text) return;
      offer(field, names);
    };
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, WAIT_MS);
    });
  }

  // A browser looks for the whole text of a field, not for what is behind its last comma.
  for (const field of document.querySelectorAll("input[data-list]")) {
    const names = [...field.list.options].map((option) => option.value);
    const extend = () => {
      const before = field.value.slice(0, field.value.lastIndexOf(",") + 1);
      offer(field, names.map((name) => (before ? before + " " + name : name)));
    };
    field.addEventListener("input", extend);
    extend();
  }

  // The time zone of the browser, unless somebody chose one.
  for (const field of document.querySelectorAll("input[data-zone]")) {
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const isKnown = [...field.list.options].some((option) => option.value === own);
    if (!field.value && isKnown) field.value = own;
  }

  // A button below the rows, which adds one more.
  for (const rows of document.querySelectorAll("fieldset[data-rows]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "more-rows";
    button.textContent = "Add a row";
    button.addEventListener("click", () => {
      const all = rows.querySelectorAll(".row");
      const row = all[all.length - 1].cloneNode(true);
      for (const field of row.children) {
        field.name = field.name.split(".")[0] + "." + all.length;
        field.setAttribute("aria-label", field.getAttribute("aria-label").split(" ")[0] + " " + (all.length + 1));
        field.value = "";
        field.removeAttribute("aria-invalid");
      }
      button.before(row);
      row.children[0].focus();
      if (all.length + 1 >= MAX_ROWS) button.remove();
    });
    rows.append(button);
  }
})();
