/*
 * The API reference writes its styles into `<style>` elements and `style` attributes, both of which the
 * page's policy refuses. This hands them to the CSSOM, which the policy allows because only scripts of
 * this origin can use it. A style in a description of the API still has no effect.
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

const createElement = Reflect.get(document, "createElement");
Reflect.set(document, "createElement", (tag, options) =>
  Reflect.apply(createElement, document, [tag === "style" ? "adopted-style" : tag, options]),
);

const setAttribute = Reflect.get(Element.prototype, "setAttribute");
Element.prototype.setAttribute = function setStyleOrAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Reflect.apply(setAttribute, this, [name, value]);
};
