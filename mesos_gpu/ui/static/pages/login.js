/** Who is there? Asked when a server wants to know. */
import { login, loginHint } from "../edge/api.js";
import { reload, reloadMesos, t } from "../edge/store.js";
import { html, useState } from "../parts/html.js";

/** @param {{where: "marathon" | "mesos"}} props */
export function Login({ where }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [both, setBoth] = useState(where === "marathon");
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    login(where, name, password);
    if (both) login("mesos", name, password);
    void reload();
    void reloadMesos();
  };
  return html`<form class="login" onSubmit=${submit}>
    <h1>${t(`login.${where}`)}</h1>
    <label>${t("login.name")}<input autocomplete="username" required value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /></label>
    <label>${t("login.password")}<input type="password" autocomplete="current-password" value=${password} onInput=${(/** @type {any} */ e) => setPassword(e.target.value)} /></label>
    ${where === "marathon" && html`<label class="check"><input type="checkbox" checked=${both} onChange=${(/** @type {any} */ e) => setBoth(e.target.checked)} />${t("login.both")}</label>`}
    <p class="faint">${t("login.kept")}</p>
    <button class="primary">${t("login.enter")}</button>
    ${loginHint.value && html`<p class="faint hint" lang="en">${loginHint.value}</p>`}
  </form>`;
}
