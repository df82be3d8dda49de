/** The page begins here. */
import { start } from "./edge/store.js";
import { html, render } from "./parts/html.js";
import { Shell } from "./pages/shell.js";

const place = document.getElementById("app");
if (place) {
  render(html`<${Shell} />`, place);
  start();
}
