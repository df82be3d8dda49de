// An app with a GPU through marathon-node: created, listed, changed, restarted, its tasks killed, removed; and its events.
// Words: Marathon's URL, the app's id. Prints one JSON document.
'use strict'
const [url, id] = process.argv.slice(2)
const marathon = require('marathon-node')(url, {})
const told = { events: [] }

const until = async (what, holds) => {
  for (let tries = 0; tries < 600; tries += 1) {
    const found = await holds()
    if (found) return found
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`not within a minute: ${what}`)
}
const tasks = async () => (await marathon.apps.getTasks(id)).tasks
const quiet = () => until('no deployment', async () => (await marathon.deployments.getList()).length === 0)
const running = (number, but = []) => until(`${number} tasks run`, async () => {
  const all = await tasks()
  const ids = all.filter((task) => task.state === 'TASK_RUNNING' && !but.includes(task.id)).map((task) => task.id)
  return all.length === number && ids.length === number && ids
})

async function main () {
  const events = marathon.events.createEventSource({ eventType: ['status_update_event', 'deployment_success'] })
  const hear = (event) => {
    const data = JSON.parse(event.data)
    told.events.push([data.eventType, data.taskStatus || ''])
  }
  for (const kind of ['status_update_event', 'deployment_success']) events.addEventListener(kind, hear)
  await new Promise((resolve) => events.on('open', resolve))
  await marathon.apps.create({ id, cmd: 'sleep 1000', cpus: 0.1, mem: 32, gpus: 1, instances: 1 })
  const [first] = await running(1)
  await quiet()
  told.listed = (await marathon.apps.getList()).apps.map((app) => [app.id, app.tasksRunning])
  await marathon.apps.update(id, { instances: 2 }, true)
  const two = await running(2)
  await quiet()
  told.keeps = two.includes(first)
  await marathon.apps.restart(id, true)
  const others = await running(2, two)
  await quiet()
  told.killed = (await marathon.apps.killTask(id, others[0], false)).task.id === others[0]
  await running(2, [others[0]])
  const { versions } = await marathon.apps.getVersions(id)
  told.instances = (await marathon.apps.getVersion(id, versions[0])).instances
  await marathon.apps.killTasks(id, { scale: true })
  await until('none runs', async () => (await tasks()).length === 0)
  await quiet()
  told.queue = (await marathon.queue.get()).queue
  told.ping = await marathon.misc.ping()
  told.leads = (await marathon.leader.get()).leader === (await marathon.info.get()).leader
  await marathon.groups.create({ id: '/node', apps: [{ id: 'one', cmd: 'sleep 1000', cpus: 0.1, mem: 32 }] })
  await quiet()
  told.group = (await marathon.groups.getOne('node')).apps.map((app) => app.id)
  await marathon.groups.destroy('node', true)
  await marathon.apps.destroy(id)
  await quiet()
  told.left = (await marathon.tasks.getList()).tasks
  events.close()
  console.log(JSON.stringify(told))
}

main().catch((error) => { console.error(error); process.exit(1) })
