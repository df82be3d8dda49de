/** Who is there? Asked when a server wants to know. */
import { login } from "../edge/api.js";
import { reload, reloadMesos, t } from "../edge/store.js";
import { html, useState } from "../parts/html.js";

/** @param {{where: "marathon" | "mesos"}} props */
export function Login({ where }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    login(where, name, password);
    void reload();
    void reloadMesos();
  };
  return html`<form class="login" onSubmit=${submit}>
    <h1>${t(`login.${where}`)}</h1>
    <label>${t("login.name")}<input autocomplete="username" required value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /></label>
    <label>${t("login.password")}<input type="password" autocomplete="current-password" value=${password} onInput=${(/** @type {any} */ e) => setPassword(e.target.value)} /></label>
    <p class="faint">${t("login.kept")}</p>
    <button class="primary">${t("login.enter")}</button>
  </form>`;
}
