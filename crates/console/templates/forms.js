// What forms do with a script: they look for names while somebody writes.
// It makes no HTML from text, and asks no other site.
(() => {
  "use strict";

  const WAIT_MS = 150;

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
      field.list.replaceChildren(...names.map((name) => {
        const option = document.createElement("option");
        option.value = name;
        return option;
      }));
    };
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, WAIT_MS);
    });
  }
})();
