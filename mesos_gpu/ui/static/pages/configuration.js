/** What a service is to be: now and before, what differs, and the way back. */
import { definition } from "../core/form.js";
import { diff, ordered } from "../core/diff.js";
import { link } from "../core/route.js";
import { get, inPath } from "../edge/api.js";
import { usePolled } from "../edge/poll.js";
import { go, state, t } from "../edge/store.js";
import { rollBack } from "../parts/acts.js";
import { Ago, Copy, Problem } from "../parts/basics.js";
import { html } from "../parts/html.js";

/** @param {{id: string, kind: string, query: Record<string, string>}} props */
export function Configuration({ id, kind, query }) {
  if (kind !== "app") {
    const shown = kind === "pod" ? state.value.pods.get(id)?.spec : state.value.jobs.get(id);
    return html`<${Json} text=${JSON.stringify(shown, null, 2)} />`;
  }
  const app = state.value.apps.get(id);
  if (!app) return null;
  const versions = usePolled((signal) => get(`v2/apps/${inPath(id)}/versions`, { signal }), 0, [id, app.version]);
  const shown = query.version ?? "";
  const old = usePolled(async (signal) => (shown ? get(`v2/apps/${inPath(id)}/versions/${shown}`, { signal }) : null), 0, [id, shown]);
  const current = ordered(definition(app));
  return html`<div class="filters">
      <label>${t("versions")} <select value=${shown} onChange=${(/** @type {any} */ e) => go(link("services", id, { tab: "configuration", version: e.target.value }), true)}>
        <option value="">${t("versions.now")}</option>
        ${(versions.value?.versions ?? []).filter((/** @type {string} */ version) => version !== app.version).map((/** @type {string} */ version) => html`<option value=${version}>${new Date(version).toLocaleString()}</option>`)}
      </select></label>
      ${old.value && html`<button type="button" class="primary" onClick=${() => rollBack(app, shown, old.value)}>${t("rollBack")}</button>`}
      ${!shown && html`<a class="button" href=${link("edit", id)}>${t("edit")}</a>`}
    </div>
    ${versions.error && html`<${Problem} error=${versions.error} />`}
    ${shown ? (old.value ? html`<${Differences} before=${ordered(definition(old.value))} after=${current} version=${shown} />` : old.error && html`<${Problem} error=${old.error} />`) : html`<${Json} text=${current} />`}`;
}

/** @param {{text: string}} props */
function Json({ text }) {
  return html`<div class="code-frame"><${Copy} text=${text} label=${t("copy.json")} /><pre class="code" tabindex="0" role="region" aria-label="JSON">${text}</pre></div>`;
}

/** @param {{before: string, after: string, version: string}} props */
export function Differences({ before, after, version }) {
  const found = diff(before, after);
  const changed = found.filter((line) => line.kind !== "same").length;
  return html`<p class="faint">${version && html`<${Ago} time=${version} /> → ${t("versions.now")}: `}${t("differences", { count: changed })}</p>
    <pre class="code diff" tabindex="0" role="region" aria-label=${t("differences.title")}>${found.map(
      (line) => html`<span class=${line.kind}><span class="mark" aria-label=${line.kind === "same" ? undefined : t(`diff.${line.kind}`)}>${{ same: " ", add: "+", remove: "−" }[line.kind]}</span> ${line.text}${"\n"}</span>`,
    )}</pre>`;
}
