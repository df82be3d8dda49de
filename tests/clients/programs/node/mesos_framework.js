// A framework by mesos-framework: its scheduler keeps one short task running, which starts anew when it has ended.
// Words: the master's host and port, how many ends are waited for. Prints one JSON document.
'use strict'
const { Scheduler, Mesos } = require('mesos-framework')
const [host, port, ends] = process.argv.slice(2)
const builder = Mesos.getMesos()
const told = { states: [], heartbeats: 0, errors: [] }
let leaving = false

const scheduler = new Scheduler({
  masterUrl: host,
  port: Number(port),
  // Less than the 15 s between two heartbeats would end it while nothing happens.
  masterConnectionTimeout: 60,
  frameworkName: 'node',
  logging: { level: 'error' },
  restartStates: ['TASK_FINISHED'],
  tasks: {
    short: {
      priority: 1,
      instances: 1,
      commandInfo: new builder.CommandInfo(null, null, true, 'test -n "$HOST"', null, null),
      resources: { cpus: 0.2, mem: 32, ports: 1, disk: 0 }
    }
  }
})

scheduler.on('subscribed', (subscribed) => { told.stream = subscribed.mesosStreamId.length })
scheduler.on('heartbeat', () => { told.heartbeats += 1 })
scheduler.on('error', (error) => {
  // It calls the end of a task that it is to start again an error, too, and that of the stream which a teardown ends.
  if (!leaving && !/restartable state/.test(error.message || '')) told.errors.push(String(error.message || error))
})
scheduler.on('update', ({ status }) => {
  told.states.push(status.state)
  if (told.states.filter((state) => state === 'TASK_FINISHED').length === Number(ends)) {
    scheduler.on('sent_teardown', () => {
      console.log(JSON.stringify(told))
      process.exit(0)
    })
    leaving = true
    scheduler.teardown()
  }
})
scheduler.on('ready', () => scheduler.subscribe())
