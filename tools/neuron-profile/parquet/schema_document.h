// SPDX-License-Identifier: Apache-2.0
//
// The schema of the tables as a document of OpenAPI, in YAML. Callers: main() of neuron-profile.
// Thread-safe: pure. Cannot fail.
#ifndef TOOLS_NEURON_PROFILE_PARQUET_SCHEMA_DOCUMENT_H
#define TOOLS_NEURON_PROFILE_PARQUET_SCHEMA_DOCUMENT_H

#include <string>

namespace neuron::profile::parquet {

std::string schema_document();

}  // namespace neuron::profile::parquet

#endif
