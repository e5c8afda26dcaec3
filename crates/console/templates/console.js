// What pages of the console do with a script: they follow what happens, copy what is to be copied, and tell times in
// the zone of the browser.
// Whatever they show was made by the portal: this makes no HTML from text, and asks no other site.
(() => {
  "use strict";

  const main = document.getElementById("content");
  const live = document.getElementById("live");
  const ANSWER_WITHIN_MS = 10000;

  // The answer to a form with what is shown once. Loaded again, the form is not sent again: its address leads to the
  // page before it.
  if ("once" in main.dataset) history.replaceState(null, "", location.href);

  const MINUTE_MS = 60000;
  // As src/view/moment.rs has them.
  const UNITS = [
    [365 * 24 * 60 * MINUTE_MS, "year", "years"], [30 * 24 * 60 * MINUTE_MS, "month", "months"],
    [24 * 60 * MINUTE_MS, "day", "days"], [60 * MINUTE_MS, "h", "h"], [MINUTE_MS, "min", "min"],
  ];

  function distance(at, now) {
    const unit = UNITS.find(([ms]) => Math.abs(now - at) >= ms);
    if (!unit) return "now";
    const count = Math.floor(Math.abs(now - at) / unit[0]);
    const text = count + " " + unit[count === 1 ? 1 : 2];
    return at < now ? text + " ago" : "in " + text;
  }

  // The locale writes 2026-11-22 14:30:05.
  const exact = (at) => at.toLocaleString("sv-SE");

  function short(at, now) {
    const [text, today] = [exact(at), exact(now)];
    if (text.slice(0, 10) === today.slice(0, 10)) return text.slice(11, 16);
    if (text.slice(0, 4) !== today.slice(0, 4)) return text.slice(0, 10);
    return at.toLocaleString("en", { month: "short", day: "numeric" }) + " " + text.slice(11, 16);
  }

  function tell(part) {
    const now = new Date();
    for (const time of part.querySelectorAll("time[title]")) {
      const at = new Date(time.dateTime);
      const set = (name, text) => {
        const shown = time.querySelector("." + name);
        if (shown && shown.textContent !== text) shown.textContent = text;
      };
      time.title = at.toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "long" });
      set("relative", distance(at, now));
      set("exact", exact(at));
      set("short", short(at, now));
    }
  }

  setInterval(() => document.hidden || tell(main), MINUTE_MS / 2);

  // Days of a log begin at midnight in the zone of the browser, unless the address names another. What is shown already
  // stays as the portal says it is.
  function askInOwnZone() {
    const shown = main.querySelector(".ranges [data-zone]");
    if (!shown) return;
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    for (const link of main.querySelectorAll(".ranges .chips a")) {
      const url = new URL(link.href);
      if (url.searchParams.has("from")) url.searchParams.set("zone", zone);
      link.href = url;
    }
    for (const field of main.querySelectorAll("form.fields input[type=hidden][name=zone]")) field.value = zone;
    const asked = new URLSearchParams(location.search);
    if (!asked.get("from") && !asked.get("until")) shown.textContent = zone;
  }
  askInOwnZone();

  // A button in front of each text that is to be copied; times in the zone of the browser.
  function dress(part) {
    tell(part);
    for (const head of part.querySelectorAll("th.mark")) {
      const marks = () => [...head.closest("table").querySelectorAll("td.mark input")];
      const all = document.createElement("input");
      all.type = "checkbox";
      all.setAttribute("aria-label", "Select all of this page");
      const bar = head.closest("section").querySelector(".selection > span");
      const title = bar.textContent;
      const count = () => {
        const marked = marks().filter((mark) => mark.checked).length;
        all.checked = marked === marks().length;
        bar.textContent = marked + " · " + title;
      };
      all.addEventListener("change", () => {
        marks().forEach((mark) => { mark.checked = all.checked; });
        count();
      });
      marks().forEach((mark) => mark.addEventListener("change", count));
      head.append(all);
    }
    for (const text of part.querySelectorAll("pre[data-copy]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy " + text.dataset.copy);
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(text.textContent);
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(text);
          button.textContent = "Selected";
        }
      });
      text.before(button);
    }
  }

  if (!live) {
    dress(main);
    return;
  }

  // Each part as the portal made it, before anything was added to it.
  const made = new WeakMap();
  let stream = null;
  let isAsking = false;
  let isBehind = false;

  function say(text) {
    if (live.textContent !== text) live.textContent = text;
  }

  // The parts that show something; what people write into stays as they have it.
  function parts(of) {
    return [...of.children].filter((part) => !part.matches("script, .head, .tabs")
      && part.id !== "live" && !part.classList.contains("done") && !("stay" in part.dataset)
      && !part.querySelector("form.fields"));
  }

  function adopt(part) {
    made.set(part, part.outerHTML);
    dress(part);
  }

  // Someone is in there with the keyboard, has marked some of it, or is asked whether something is to go.
  function isInUse(part) {
    const marked = getSelection();
    return part.contains(document.activeElement) || part.querySelector(":is(details.loss[open], .menu:popover-open, td input:checked)")
      || (!marked.isCollapsed && part.contains(marked.anchorNode));
  }

  function replace(shown, next) {
    const news = next.dataset.news;
    const isNews = news && news !== shown.dataset.news;
    const scrolled = shown.querySelector(".scroll")?.scrollLeft ?? 0;
    const fresh = document.importNode(next, true);
    shown.replaceWith(fresh);
    adopt(fresh);
    if (scrolled) fresh.querySelector(".scroll")?.scrollTo(scrolled, 0);
    if (isNews) say("Live. " + news);
  }

  // Takes over what is different in the page as it is now, but nothing under someone's hands.
  function take(page) {
    const shown = parts(main);
    const next = parts(page.getElementById("content"));
    live.dataset.since = page.getElementById("live").dataset.since;
    isBehind = false;
    if (shown.length !== next.length) {
      if (shown.some(isInUse)) {
        isBehind = true;
        return;
      }
      shown.forEach((part) => part.remove());
      const fresh = next.map((part) => document.importNode(part, true));
      live.after(...fresh);
      fresh.forEach(adopt);
      return;
    }
    shown.forEach((part, at) => {
      if (made.get(part) === next[at].outerHTML) return;
      if (isInUse(part)) isBehind = true;
      else replace(part, next[at]);
    });
  }

  // Where this page is: what answers a form stands at the address of the form.
  function address() {
    return location.pathname === live.dataset.path ? location.href : live.dataset.path;
  }

  // Asks for this page again. One question at a time; what happens meanwhile is asked for after it.
  function ask() {
    if (isAsking) {
      isBehind = true;
      return;
    }
    isAsking = true;
    isBehind = false;
    const request = new XMLHttpRequest();
    request.open("GET", address());
    request.responseType = "document";
    request.timeout = ANSWER_WITHIN_MS;
    request.setRequestHeader("x-culvert-live", "1");
    request.onloadend = () => {
      const isMissed = isBehind;
      isAsking = false;
      const page = request.status === 200 ? request.response : null;
      if (page?.getElementById("live")) {
        take(page);
        if (isMissed) ask();
      } else if (page) {
        stop();
        say("Not live: you are signed out. Load the page again.");
      } else {
        say("Not live: the portal does not answer. This is how it was before.");
      }
    };
    request.send();
  }

  function follow() {
    if (stream || document.hidden) return;
    stream = new EventSource("/live?since=" + encodeURIComponent(live.dataset.since));
    stream.onopen = () => say("Live");
    stream.onmessage = () => ask();
    stream.onerror = () => {
      const isOver = stream.readyState === EventSource.CLOSED;
      say(isOver ? "Not live. Load the page again to see what is new." : "Not live at the moment.");
      if (!isOver) return;
      stop();
      // The page itself tells whether that is so because someone has signed out.
      ask();
    };
  }

  function stop() {
    stream?.close();
    stream = null;
  }

  parts(main).forEach(adopt);
  main.querySelectorAll("[data-stay]").forEach(dress);
  document.addEventListener("focusout", () => setTimeout(() => isBehind && ask()));
  document.addEventListener("toggle", () => setTimeout(() => isBehind && ask()), true);
  // A page that nobody sees holds no stream, and asks for what it has missed when it is seen again.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", follow);
  follow();
})();
