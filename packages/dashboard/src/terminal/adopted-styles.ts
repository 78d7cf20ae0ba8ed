/**
 * Lets xterm.js set its styles although the page's policy only allows style sheets of the daemon.
 */

/**
 * Opens a terminal. xterm.js creates `<style>` elements, which the policy refuses; each is replaced
 * by an element that passes its text to a constructed style sheet, which the policy allows.
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
    // Restores the prototype's method.
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
