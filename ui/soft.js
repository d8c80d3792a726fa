// Links of our own are followed without loading the page anew, and tables are sorted by their headings. All else is the browser's:
// middle-click, a copied address, the keyboard, Back and Forward. Without this script links load the page, and lead to the same views.
if (!window.atlasLinks) {
  window.atlasLinks = true;
  const push = history.pushState.bind(history);
  // steps are what the reader followed. Streamlit renews the entry: of a widget that changes its page's address Back leads to where the reader
  // came from, and a page that answers after another was asked for is no step
  history.pushState = history.replaceState.bind(history);
  const close = (but) => document.querySelectorAll("details.atlas[open]").forEach((menu) => menu.contains(but) || menu.removeAttribute("open"));
  const go = (address, stays) => {
    if (address !== location.href) push({}, "", address);
    close(null);
    dispatchEvent(new PopStateEvent("popstate", { state: {} }));
    if (!stays) document.querySelector('[data-testid="stMain"]')?.scrollTo(0, 0);
  };
  const isOurs = (to) => to.origin === location.origin && !to.pathname.slice(1).includes("/") && !to.pathname.includes(".");
  const sort = (button) => {
    const heading = button.closest("th"), body = heading.closest("table").tBodies[0], column = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") !== "descending";
    heading.parentElement.querySelectorAll("[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[column].textContent;
    const number = (text) => Number(text.replace(/[,%]/g, "").replace("−", "-"));
    const order = (a, b) => (isNaN(number(a) - number(b)) ? a.localeCompare(b) : number(a) - number(b));
    body.append(...[...body.rows].sort((a, b) => order(value(a), value(b)) * (down ? -1 : 1)));
  };
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    close(target);
    if (!target || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const button = target.closest("table.rows th button");
    if (button) return sort(button);
    const anchor = target.closest("a[href]");
    if (!anchor || anchor.target || anchor.hasAttribute("download") || anchor.getAttribute("href").startsWith("#")) return;
    const to = new URL(anchor.href);
    if (!isOurs(to)) return;
    event.preventDefault();
    go(to.href, "stays" in anchor.dataset);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form.box")) return;
    event.preventDefault();
    const typed = new FormData(form), to = new URL(form.action);
    // an address leads to its component at once
    if (/^\s*L\d{1,9}[NH]\d{1,9}\s*$/i.test(typed.get("q"))) {
      to.pathname = "/component";
      typed.set("at", typed.get("q").trim().toUpperCase());
      typed.delete("q");
    }
    to.search = new URLSearchParams(typed);
    go(to.href);
  });
}
