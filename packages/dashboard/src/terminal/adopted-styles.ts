/** Lets xterm.js write its styles where the page's policy allows only style sheets of the daemon. */

/**
 * Opens a terminal. It makes `<style>` elements, which the policy refuses; instead of each it gets an
 * element that passes its text on to a constructed style sheet, which is code and not text of the page.
 */
export function openWithAdoptedStyles(open: () => void): void {
  const own = Reflect.get(Document.prototype, "createElement");
  const createElement = (tag: string, options?: ElementCreationOptions): HTMLElement =>
    tag === "style"
      ? adoptedStyle(Reflect.apply(own, document, ["span"]))
      : Reflect.apply(own, document, [tag, options]);
  Reflect.set(document, "createElement", createElement);
  try {
    open();
  } finally {
    // The prototype's own shows again.
    Reflect.deleteProperty(document, "createElement");
  }
}

function adoptedStyle(element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  element.hidden = true;
  Object.defineProperty(element, "textContent", {
    set(css: string) {
      sheet.replaceSync(css);
    },
    get: () => "",
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    HTMLElement.prototype.remove.call(element);
  };
  return element;
}
