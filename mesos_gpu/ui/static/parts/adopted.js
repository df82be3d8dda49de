/** Styles that a foreign module makes while it runs: the page's policy refuses style elements, and adopted sheets are none. */

/**
 * Returns what stands in the place of a `<style>` element: its text becomes a sheet of the document (CSSOM,
 * DocumentOrShadowRoot.adoptedStyleSheets), which goes when it is removed.
 * @returns {HTMLElement}
 */
export function adopted() {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  const place = document.createElement("span");
  place.hidden = true;
  Object.defineProperty(place, "textContent", { get: () => "", set: (text) => sheet.replaceSync(text) });
  place.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(place);
  };
  return place;
}
