// SPDX-License-Identifier: Apache-2.0
//
// How an inference is asked for and answered: the server's own JSON, or the messages of KServe's
// protocol, version 2, with its extension for binary tensors.
// Callers: a connection makes one for each request; read() and write() run on one thread at a time,
// which may be another each time. Owns what it remembers of the request for the answer.
// Fails: with a sentence, the field and the byte at which it went wrong.
#ifndef TOOLS_NEURON_SERVE_MESSAGE_INFER_FORM_H
#define TOOLS_NEURON_SERVE_MESSAGE_INFER_FORM_H

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/neuron-serve/message/job.h"
#include "tools/neuron-serve/message/json_reader.h"
#include "tools/neuron-serve/message/model_spec.h"

namespace neuron::serve {

class InferForm {
 public:
  virtual ~InferForm() = default;
  // Fills rows and input of `job`.
  virtual std::optional<JsonError> read(std::string_view body, const ModelSpec& model,
                                        Job& job) = 0;
  // Appends the answer's body.
  virtual void write(const ModelSpec& model, const Job& job, std::string& body) = 0;
  // Behind write(): whole header lines, which live as long as the form.
  virtual std::string_view type() const { return "application/json"; }
  virtual std::string_view headers() const { return {}; }
};

// {"inputs": {"x": [...]}}
std::unique_ptr<InferForm> own_form();

// {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [...]}]}. `json_bytes`:
// how much of the body is JSON, if that is said; binary tensors follow.
std::unique_ptr<InferForm> kserve_form(std::optional<uint64_t> json_bytes);

// "FP32"; types that the protocol has no name for have the device's: "FLOAT8_E4M3".
std::string kserve_type(nrt_dtype_t dtype);

}  // namespace neuron::serve

#endif
