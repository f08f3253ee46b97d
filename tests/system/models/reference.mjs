// SPDX-License-Identifier: Apache-2.0
// Runs a model on onnxruntime: one thread, one operator after the other. Arguments: the folder of
// onnxruntime-node, the model. Takes one request a line and answers each with a line, both JSON:
//   {"inputs": {NAME: {"type": "float32", "shape": [1, 3], "file": RAW}}, "folder": FOLDER, "runs": 1}
//   {"outputs": {NAME: {"type": "float32", "shape": [1, 2], "file": RAW}}, "seconds": [0.01]}
// An input that a request does not name is what it was before. Without a folder no output is written.
// What fails is answered with {"error": SENTENCE}.
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const [, , runtime, model] = process.argv
const { InferenceSession, Tensor } = createRequire(`${runtime}/here.js`)(runtime)
const ARRAYS = { float32: Float32Array, int64: BigInt64Array }
const inputs = {}
let session

async function answer({ inputs: given = {}, folder, runs = 1 }) {
  // Memory of its own for what is read, so that it begins where its elements may.
  for (const [name, { type, shape, file }] of Object.entries(given)) {
    inputs[name] = new Tensor(type, new ARRAYS[type](new Uint8Array(readFileSync(file)).buffer), shape)
  }
  session ??= await InferenceSession.create(model, {
    intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential', logSeverityLevel: 3,
  })
  let results
  const seconds = []
  for (let run = 0; run < runs; ++run) {
    const start = process.hrtime.bigint()
    results = await session.run(inputs)
    seconds.push(Number(process.hrtime.bigint() - start) / 1e9)
  }
  const outputs = {}
  Object.entries(results).forEach(([name, { type, dims, data }], i) => {
    if (folder === undefined) return
    const file = `${folder}/output-${i}.raw`
    writeFileSync(file, new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
    outputs[name] = { type, shape: dims, file }
  })
  return { outputs, seconds }
}

for await (const line of createInterface({ input: process.stdin })) {
  const reply = await answer(JSON.parse(line)).catch(problem => ({ error: String(problem) }))
  process.stdout.write(JSON.stringify(reply) + '\n')
}
