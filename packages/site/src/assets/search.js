/* Searches the guide in the browser; the index is loaded when the search is first used. */
import MiniSearch from "minisearch";

const input = document.querySelector("#search");
const list = document.querySelector("#results");
const base = new URL(".", import.meta.url);
const SHOWN = 12;
let index;

function loadIndex() {
  index ??= fetch(new URL("search.json", base)).then(async (response) =>
    MiniSearch.loadJSON(await response.text(), {
      fields: ["page", "heading", "text"],
      storeFields: ["address", "page", "heading"],
      searchOptions: {
        prefix: true,
        fuzzy: 0.15,
        combineWith: "AND",
        boost: { page: 4, heading: 3 },
      },
    }),
  );
  return index;
}

async function search() {
  const query = input.value.trim();
  const found = query === "" ? [] : (await loadIndex()).search(query).slice(0, SHOWN);
  // The input may have changed in the meantime.
  if (input.value.trim() === query) show(query, found);
}

function show(query, found) {
  const items = found.map(({ address, page, heading }) => {
    const link = document.createElement("a");
    link.href = new URL(address, base).href;
    const title = document.createElement("b");
    title.textContent = heading;
    link.append(title, heading === page ? "" : ` ${page}`);
    const item = document.createElement("li");
    item.append(link);
    return item;
  });
  if (query !== "" && items.length === 0) {
    const none = document.createElement("li");
    none.textContent = "No results";
    items.push(none);
  }
  list.replaceChildren(...items);
  list.hidden = items.length === 0;
}

input.addEventListener("focus", () => void loadIndex());
input.addEventListener("input", () => void search());
document.addEventListener("keydown", (event) => {
  const isTyping = /^(?:INPUT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    input.focus();
  } else if (event.key === "Escape") {
    list.hidden = true;
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !list.hidden) {
    const links = [input, ...list.querySelectorAll("a")];
    const step = event.key === "ArrowDown" ? 1 : -1;
    const next = links[links.indexOf(document.activeElement) + step];
    if (next !== undefined) {
      event.preventDefault();
      next.focus();
    }
  }
});
document.addEventListener("click", ({ target }) => {
  if (!target.closest(".search")) list.hidden = true;
});
// On a narrow screen the list of pages would come before the page.
if (matchMedia("(max-width: 60rem)").matches)
  document.querySelector(".pages details").removeAttribute("open");
