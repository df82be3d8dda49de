// The Marathon client of the package `mesos`: every call of its that Marathon has today.
// Words: Marathon's host and port, the app's id. Prints one JSON document.
'use strict'
const [host, port, id] = process.argv.slice(2)
const marathon = require('mesos').Marathon({ host, port })
const told = {}

const call = (part, name, options = {}) => new Promise((resolve, reject) => {
  marathon[part][name](options, (error, data) => error ? reject(error) : resolve(data))
})
const until = async (what, holds) => {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await holds()) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`not within a minute: ${what}`)
}
const running = (number) => until(`${number} tasks run`, async () => {
  const tasks = await call('app', 'tasks', { id })
  return tasks.length === number && tasks.every((task) => task.state === 'TASK_RUNNING')
})

async function main () {
  await call('app', 'create', { id, cmd: 'sleep 1000', cpus: 0.1, mem: 32, gpus: 1, instances: 1 })
  await running(1)
  told.listed = (await call('app', 'list')).map((app) => app.id)
  told.gpus = (await call('app', 'get', { id })).gpus
  told.versions = (await call('app', 'versions', { id })).length
  // A change meets the lock of the deployment before it, as in Marathon, until that has ended.
  await until('it may be changed', () => call('app', 'update', { id, instances: 2 }).then(() => true, () => false))
  await running(2)
  told.killed = (await call('app', 'kill', { id })).length
  await running(2)
  await until('it may be removed', () => call('app', 'destroy', { id }).then(() => true, () => false))
  await until('it is gone', async () => (await call('app', 'list')).length === 0)
  console.log(JSON.stringify(told))
}

main().catch((error) => { console.error(error); process.exit(1) })
