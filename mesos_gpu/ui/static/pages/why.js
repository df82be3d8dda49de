/** Why a service does not run: the sentence of `mesos-gpu why`, agent by agent, and the funnel of Marathon's offers. */
import { funnel } from "../core/funnel.js";
import { placesOf } from "../core/plan.js";
import { get, inPath } from "../edge/api.js";
import { usePolled } from "../edge/poll.js";
import { state, t } from "../edge/store.js";
import { Ago, Name, Problem } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** @param {{id: string}} props */
export function Why({ id }) {
  const { value, error } = usePolled((signal) => get(`ui/api/why/${inPath(id)}`, { signal }), 3000, [id]);
  const queued = state.value.queue.get(id);
  if (!value) return error ? html`<${Problem} error=${error} />` : html`<p class="faint">${t("loading")}</p>`;
  const judged = value.agents.length > 0 && !["running", "stopped"].includes(value.state);
  return html`<section class="sheet why">
      <h2>${t("why.title")}</h2>
      <p class="headline" lang="en"><${Name} text=${value.headline} /></p>
      ${value.change && html`<h3>${t("why.change")}</h3><ul lang="en">${value.change.steps.map((/** @type {any} */ step) => html`<li>${step.text}</li>`)}</ul>`}
      ${value.change?.agent && html`<p>${t("why.then", { where: placesOf(value.change).map(([host, cards]) => host + cards.map(([word, values]) => t(word, values)).join("")).join(", ") })}</p>`}
      ${value.remedies.length > 0 && html`<h3>${t("why.helps")}</h3><ul lang="en">${value.remedies.map((/** @type {string} */ text) => html`<li>${text}</li>`)}</ul>`}
      ${!value.agentsKnown && html`<p class="faint">${t("why.noAgents")}</p>`}
    </section>
    ${judged && html`<section class="block"><h2>${t("why.machines")}</h2><${Table} caption=${t("why.machines")} rows=${value.agents} id=${(/** @type {any} */ one) => one.agentId}
      columns=${[
        { key: "agent", label: t("col.machine"), head: true, cell: (/** @type {any} */ one) => one.agent },
        { key: "now", label: t("why.now"), cell: (/** @type {any} */ one) => (one.now ? t("yes") : t("no")) },
        { key: "ever", label: t("why.ever"), cell: (/** @type {any} */ one) => (one.ever ? t("yes") : t("no")) },
        { key: "lacks", label: t("why.lacksHead"), cell: (/** @type {any} */ one) => html`<span lang="en">${one.lacks.filter((/** @type {any} */ lack) => lack.forEver || one.ever).map((/** @type {any} */ lack) => lack.text).join("; ") || t("nothing")}</span>` },
      ]} /></section>`}
    ${queued && html`<${Funnel} queued=${queued} />`}`;
}

/** @param {{queued: any}} props */
function Funnel({ queued }) {
  const summary = queued.processedOffersSummary ?? {};
  const last = funnel(queued, "rejectSummaryLastOffers");
  const all = funnel(queued, "rejectSummaryLaunchAttempt");
  return html`<section class="block"><h2>${t("funnel.title")}</h2>
    <p class="faint">${t("funnel.text", { count: summary.processedOffersCount ?? 0, unused: summary.unusedOffersCount ?? 0 })} ${summary.lastUnusedOfferAt && html`<${Ago} time=${summary.lastUnusedOfferAt} />`}</p>
    <${Table} caption=${t("funnel.title")} rows=${last.map((step, i) => ({ ...step, all: all[i] }))} id=${(/** @type {any} */ step) => step.reason}
      columns=${[
        { key: "asked", label: t("funnel.asked"), head: true, cell: (/** @type {any} */ step) => t(`asked.${step.reason}`) },
        { key: "last", label: t("funnel.last"), cell: (/** @type {any} */ step) => html`<${Left} step=${step} />` },
        { key: "all", label: t("funnel.all"), rank: 2, cell: (/** @type {any} */ step) => html`<${Left} step=${step.all} />` },
      ]} />
  </section>`;
}

/** @param {{step: {came: number, left: number} | undefined}} props */
function Left({ step }) {
  if (!step || step.came === 0) return html`<span class="faint">–</span>`;
  const lost = step.came - step.left;
  return html`<span class="bar"><meter class=${lost ? "warn" : ""} min="0" max=${step.came} value=${step.left} aria-label=${t("funnel.left")}></meter>
    <span class=${lost ? "state-waiting" : ""}>${t("of", { part: step.left, whole: step.came })}</span></span>`;
}
