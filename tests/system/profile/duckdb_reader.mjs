// SPDX-License-Identifier: Apache-2.0
// Asks DuckDB about Parquet files and prints each answer as a JSON array of rows, in an array.
// Arguments: the folder of node_modules with DuckDB, then the questions.
import { createRequire } from 'node:module'

const [, , modules, ...questions] = process.argv
const { DuckDBInstance } = createRequire(`${modules}/here.js`)('@duckdb/node-api')
const connection = await (await DuckDBInstance.create(':memory:')).connect()
const answers = []
for (const question of questions) answers.push((await connection.runAndReadAll(question)).getRows())
process.stdout.write(JSON.stringify(answers, (key, value) => typeof value === 'bigint' ? Number(value) : value))
