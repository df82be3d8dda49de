/** What has happened since the page was opened. */
import { state, t } from "../edge/store.js";
import { Empty } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { EventTable } from "./service_parts.js";

/** */
export function EventsPage() {
  const rows = [...state.value.events].reverse();
  return html`<div class="head"><h1>${t("page.events")}</h1></div>
    ${rows.length === 0 ? html`<${Empty} title=${t("events.none")} text=${t("events.noneText")} />` : html`<${EventTable} rows=${rows} />`}`;
}
