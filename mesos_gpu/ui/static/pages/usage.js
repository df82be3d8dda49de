/** What was asked for and what of it was used, by app, role or user; also of tasks and apps that have ended. */
import { plain } from "../core/format.js";
import { link } from "../core/route.js";
import { BY, SINCE, SUMS, named, usageAsked } from "../core/usage.js";
import { get } from "../edge/api.js";
import { usePolled } from "../edge/poll.js";
import { state, t } from "../edge/store.js";
import { Empty, Name, Problem, Tabs } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** @param {{query: Record<string, string>}} props */
export function Usage({ query }) {
  const { by, since } = usageAsked(query, Date.now());
  const { value, error } = usePolled((signal) => get(usageAsked(query, Date.now()).path, { signal }), 15_000, [by, since]);
  const rows = value?.by === by ? value.usage : null;
  const total = SUMS.filter(([, rank]) => rank === 1);
  return html`<div class="head"><h1>${t("page.usage")}</h1></div>
    <${Tabs} label=${t("usage.by")} current=${by} href=${(/** @type {string} */ one) => link("usage", "", { by: one, since })} tabs=${BY.map((key) => ({ key, label: t(`usage.by.${key}`) }))} />
    <${Tabs} label=${t("usage.since")} current=${since} href=${(/** @type {string} */ one) => link("usage", "", { by, since: one })} tabs=${SINCE.map((key) => ({ key, label: t(`usage.since.${key}`) }))} />
    ${error && html`<${Problem} error=${error} />`}
    ${!rows && !error && html`<p class="faint">${t("loading")}</p>`}
    ${rows?.length === 0 && html`<${Empty} title=${t("usage.none")} />`}
    ${rows?.length > 0 && html`<p>${t("usage.total")}: ${total.map(([key, , write]) => `${t(`usage.${key}`)} ${write(value.total)}`).join(", ")}</p>
      <${Table} caption=${t("page.usage")} rows=${rows} id=${named} columns=${[...names(by), ...SUMS.map(([key, rank, cell, sort]) => ({ key, label: t(`usage.${key}`), number: true, rank, cell, sort }))]} />`}
    ${(value?.notTold ?? []).map((/** @type {string} */ one) => html`<p class="faint" lang="en">${plain(one)}</p>`)}`;
}

/** The columns that name a line. @param {string} by */
function names(by) {
  const of = by === "app" ? BY : [by];
  return of.map((key, at) => ({
    key,
    label: t(`usage.by.${key}`),
    head: at === 0,
    rank: at === 0 ? 1 : 3,
    sort: (/** @type {any} */ each) => String(each[key]),
    cell: (/** @type {any} */ each) => (key === "app" && state.value.apps.has(each.app) ? html`<a href=${link("services", each.app)}><${Name} text=${each.app} /></a>` : html`<${Name} text=${String(each[key])} />`),
  }));
}
