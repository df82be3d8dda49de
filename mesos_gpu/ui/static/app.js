/** The page begins here. */
import { parseRoute } from "./core/route.js";
import { enter } from "./edge/api.js";
import { route, start } from "./edge/store.js";
import { html, render } from "./parts/html.js";
import { Shell } from "./pages/shell.js";

const place = document.getElementById("app");
if (place) {
  const entering = enter();
  route.value = parseRoute(location.hash); // without the ticket, if it brought one
  render(html`<${Shell} />`, place);
  void entering.finally(start);
}
