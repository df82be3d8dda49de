/** Deployments: what is being changed, how far it is, and what keeps it. */
import { link } from "../core/route.js";
import { shortId } from "../core/format.js";
import { state, t } from "../edge/store.js";
import { stopDeployment } from "../parts/acts.js";
import { Ago, Bar, Empty, Name } from "../parts/basics.js";
import { html } from "../parts/html.js";

/** */
export function Deployments() {
  const all = state.value.deployments;
  return html`<div class="head"><h1>${t("page.deployments")}</h1></div>
    ${state.value.loaded && all.length === 0 && html`<${Empty} title=${t("deployments.none")} text=${t("deployments.noneText")} />`}
    ${all.map((one) => html`<section class="sheet" key=${one.id}>
      <div class="head"><h2>${[...(one.affectedApps ?? []), ...(one.affectedPods ?? [])].map((id) => html`<a href=${link("services", id)}><${Name} text=${id} /></a> `)}</h2>
        <button type="button" class="danger" onClick=${() => stopDeployment(one)}>${t("stop")}</button></div>
      <p><${Bar} used=${one.currentStep} total=${one.totalSteps} text=${t("why.step", { step: one.currentStep, steps: one.totalSteps })} label=${t("deployments.steps")} /> <span class="faint"><${Ago} time=${one.version} /> · <code title=${one.id}>${shortId(one.id)}</code></span></p>
      <ol class="steps">${(one.steps ?? []).map((step, i) => html`<li aria-current=${i + 1 === one.currentStep ? "step" : undefined} class=${i + 1 < one.currentStep ? "faint" : ""}>
        ${step.actions.map((/** @type {any} */ action) => html`<div>${i + 1 < one.currentStep ? "✓ " : ""}${t(`action.${action.action}`)} <${Name} text=${action.app ?? action.pod ?? ""} /></div>`)}</li>`)}</ol>
      ${(one.blockers ?? []).map((blocker) => html`<p class="state-waiting">△ <a href=${link("services", blocker.app ?? blocker.pod ?? "", { tab: "why" })}>${t("deployments.blocked")}</a> <span class="reason">${blockerText(blocker)}</span></p>`)}
    </section>`)}`;
}

/** @param {any} blocker @returns {string} */
function blockerText(blocker) {
  return String(blocker.message ?? blocker.text ?? blocker.reason ?? blocker.app ?? "");
}
