// Makes one call with a public HTTP client of Node.js, for redo client-check: node client.mjs NAME
import { argv, env, exit } from 'node:process'

const url = env.REDO_URL
const base = new URL(env.REDO_BASE_URL)
const key = env.REDO_OPERATION
const order = { amount: 1000 }
const headers = { 'Idempotency-Key': key }
const json = { ...headers, 'Content-Type': 'application/json' }

async function read (resp) {
  if (resp.status < 200 || resp.status > 299) throw new Error(`status ${resp.status}`)
  await resp.json()
}

const calls = {
  async fetch () {
    await read(await fetch(url, { method: 'POST', headers: json, body: JSON.stringify(order) }))
  },
  async 'undici-retry' () {
    const { Agent, RetryAgent, request } = await import('undici')
    const dispatcher = new RetryAgent(new Agent(), { methods: ['POST'] })
    const resp = await request(url, { method: 'POST', headers: json, body: JSON.stringify(order), dispatcher })
    if (resp.statusCode < 200 || resp.statusCode > 299) throw new Error(`status ${resp.statusCode}`)
    await resp.body.json()
  },
  async axios () {
    const { default: axios } = await import('axios')
    await axios.post(url, order, { headers, responseType: 'json', transitional: { silentJSONParsing: false } })
  },
  async 'axios-retry' () {
    const { default: axios } = await import('axios')
    const { default: axiosRetry, isNetworkError, isRetryableError } = await import('axios-retry')
    axiosRetry(axios, {
      retries: 3,
      retryDelay: axiosRetry.exponentialDelay,
      retryCondition: e => isNetworkError(e) || isRetryableError(e)
    })
    await axios.post(url, order, { headers, responseType: 'json', transitional: { silentJSONParsing: false } })
  },
  async got () {
    const { default: got } = await import('got')
    await got.post(url, { json: order, headers, retry: { methods: ['POST'] } }).json()
  },
  async ky () {
    const { default: ky } = await import('ky')
    await ky.post(url, { json: order, headers, retry: { methods: ['post'] } }).json()
  },
  async 'stripe-node' () { await stripe() },
  async 'stripe-node-key' () { await stripe({ idempotencyKey: key }) },
  async 'openai-node' () { await openai() },
  async 'openai-node-key' () { await openai({ headers }) }
}

async function stripe (options) {
  const { default: Stripe } = await import('stripe')
  const client = new Stripe('sk_test_redo', { protocol: 'http', host: base.hostname, port: base.port, telemetry: false })
  await client.customers.create({ description: 'redo' }, options)
}

async function openai (options) {
  const { default: OpenAI } = await import('openai')
  const client = new OpenAI({ apiKey: 'sk-redo', baseURL: env.REDO_BASE_URL })
  await client.chat.completions.create({ model: 'gpt-redo', messages: [{ role: 'user', content: 'redo' }] }, options)
}

try {
  await calls[argv[2]]()
  exit(0)
} catch (err) {
  console.error(String(err))
  exit(1)
}
