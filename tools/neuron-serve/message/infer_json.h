// SPDX-License-Identifier: Apache-2.0
//
// Requests and answers of inferences as JSON: {"inputs": {"x": [[0, 0.5, ...], ...]}}.
// Callers: the network thread. Thread-safe: no state. One pass over the text, straight into the
// bytes of tensors, without a document in between. A list is flat, one row, or a list of rows.
// Fails: with a sentence, the field and the byte at which it went wrong.
#ifndef TOOLS_NEURON_SERVE_MESSAGE_INFER_JSON_H
#define TOOLS_NEURON_SERVE_MESSAGE_INFER_JSON_H

#include <optional>
#include <string>
#include <string_view>

#include "tools/neuron-serve/message/infer_form.h"
#include "tools/neuron-serve/message/job.h"
#include "tools/neuron-serve/message/model_spec.h"

namespace neuron::serve {

// Fills rows and input of `job`.
std::optional<JsonError> parse_inputs(std::string_view text, const ModelSpec& model, Job& job);

// Appends {"model": ..., "outputs": {...}, "timing": {...}}.
void append_outputs(const ModelSpec& model, const Job& job, std::string& text);

}  // namespace neuron::serve

#endif
