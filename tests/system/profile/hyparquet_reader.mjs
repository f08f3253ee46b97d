// SPDX-License-Identifier: Apache-2.0
// Reads the Parquet files of a folder with hyparquet and prints {"TABLE": {"rows": N, "columns":
// {FIELD: [values]}}}. Arguments: the unpacked package, the folder.
import { readdirSync, readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const [, , folder, tables] = process.argv
const { parquetMetadata, parquetReadObjects } = await import(pathToFileURL(`${folder}/src/index.js`))
const out = {}
for (const name of readdirSync(tables)) {
  if (!name.endsWith('.parquet')) continue
  const bytes = readFileSync(`${tables}/${name}`)
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
  const metadata = parquetMetadata(file)
  const rows = await parquetReadObjects({ file })
  const columns = {}
  for (const field of metadata.schema.slice(1)) columns[field.name] = rows.map(row => row[field.name] ?? null)
  out[name.slice(0, -8)] = { rows: Number(metadata.num_rows), columns }
}
process.stdout.write(JSON.stringify(out, (key, value) => typeof value === 'bigint' ? Number(value) : value))
