// marathon-event-bus-client: hears what becomes of an app that it creates. Arguments: host and port of Marathon.
const http = require("http");
const Client = require("marathon-event-bus-client");

const [host, port] = process.argv.slice(2);
const kinds = ["deployment_info", "status_update_event", "instance_changed_event", "deployment_success"];
const seen = Object.fromEntries(kinds.map((kind) => [kind, 0]));
const handlers = Object.fromEntries(kinds.map((kind) => [kind, () => {}]));
const client = new Client({ marathonHost: host, marathonPort: port, eventTypes: kinds, handlers });
const app = { id: "/by-events", cmd: "sleep 1000", cpus: 0.1, mem: 32 };

function ask(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  http.request({ host, port, method, path, headers }, (answer) => answer.resume()).end(body && JSON.stringify(body));
}

function end(status) {
  console.log(JSON.stringify(seen));
  client.unsubscribe();
  process.exit(status);
}

client.on("subscribed", () => ask("POST", "/v2/apps", app));
client.on("error", () => end(1));
for (const kind of kinds) {
  client.on(kind, () => {
    seen[kind] += 1;
    if (kind === "deployment_success") {
      end(0);
    }
  });
}
setTimeout(() => end(1), 60000);
client.subscribe();
