/**
 * What the servers send, as far as the page looks at it. Nothing here runs.
 *
 * @typedef {Record<string, any>} Json
 *
 * @typedef {Object} Task as /v2/tasks shows it
 * @property {string} id
 * @property {string} appId
 * @property {string} state
 * @property {string} [host]
 * @property {string} [slaveId]
 * @property {string} [stagedAt]
 * @property {string} [startedAt]
 * @property {string} [version]
 * @property {number[]} [ports]
 * @property {{alive: boolean}[]} [healthCheckResults]
 * @property {string} [localVolumes]
 * @property {{state: string, for: string | null, since: string, unanswered?: number}} [suspension] as docs/do/tasks.md says
 * @property {{what: string, reason: string, for: string | null, at: string}} [suspensionRefused] likewise
 *
 * @typedef {Object} Blocker what keeps a deployment
 * @property {string} app
 * @property {string} [reason]
 *
 * @typedef {Object} Deployment as /v2/deployments shows it
 * @property {string} id
 * @property {string} version
 * @property {string[]} affectedApps
 * @property {string[]} [affectedPods]
 * @property {{actions: {action: string, app?: string, pod?: string}[]}[]} steps
 * @property {Json[]} currentActions
 * @property {number} currentStep
 * @property {number} totalSteps
 * @property {Json[]} [blockers]
 *
 * @typedef {Object} Agent as the master's /slaves shows it
 * @property {string} id
 * @property {string} hostname
 * @property {string} pid
 * @property {boolean} active
 * @property {boolean} [deactivated]
 * @property {Json} [drain_info]
 * @property {number} [estimated_drain_start_time_seconds]
 * @property {Json} [attributes]
 * @property {Json} resources
 * @property {Json} used_resources
 * @property {Json} [offered_resources]
 * @property {Json} [unreserved_resources]
 * @property {Json} [reserved_resources]
 * @property {string} [version]
 * @property {number} [registered_time]
 *
 * @typedef {Object} State all that the page knows of the cluster; a value, never changed in place
 * @property {boolean} loaded
 * @property {Map<string, Json>} apps by id
 * @property {Map<string, Json>} pods by id, each with its status
 * @property {Map<string, Json>} jobs by id
 * @property {Map<string, Task>} tasks by id
 * @property {Map<string, Json>} queue by the id of the app or pod that waits
 * @property {Deployment[]} deployments
 * @property {Json} info of /v2/info
 * @property {Agent[]} agents
 * @property {Json[]} frameworks
 * @property {Json[]} roles
 * @property {boolean} mesosLoaded
 * @property {Seen[]} events the latest ones, newest last
 *
 * @typedef {Object} Seen an event as it came
 * @property {number} number
 * @property {string} at ISO time
 * @property {string} type
 * @property {Json} body
 *
 * @typedef {"running"|"deploying"|"waiting"|"delayed"|"suspended"|"unhealthy"|"starting"|"idle"} Word
 *
 * @typedef {Object} Service an app, a pod or a job, in the same words
 * @property {string} id
 * @property {"app"|"pod"|"job"} kind
 * @property {Word} word
 * @property {[string, Record<string, any>]} reason key and values of a sentence
 * @property {number} wanted
 * @property {number} running
 * @property {number} healthy
 * @property {number} unhealthy
 * @property {number} gpus of one instance
 * @property {string[]} models of GPUs that it asks for, or holds
 * @property {number} cpus
 * @property {number} mem MiB
 * @property {string} version
 * @property {Record<string, string>} labels
 */
export {};
