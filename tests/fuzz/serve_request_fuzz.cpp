// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what clients send to neuron-serve: requests in its own JSON and in KServe's
// messages with binary tensors. The first byte chooses, the second one is the length of the JSON.
// A request that is taken has bytes for its rows, and can be answered.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tools/neuron-serve/message/infer_form.h"

namespace {

using namespace neuron::serve;  // NOLINT: this file is the target

class Asked : public Job {
 public:
  void finished() override {}
};

ModelSpec model_with(bool batched) {
  ModelSpec model;
  model.name = "m";
  model.batched = batched;
  model.batch = batched ? 4 : 1;
  const uint32_t rows = batched ? 1 : 4;  // of what a request brings at least
  model.inputs = {{"x", NRT_DTYPE_FLOAT32, {4, 2}, 32, 4, size_t{8} * rows, size_t{2} * rows},
                  {"b", NRT_DTYPE_UINT8, {4}, 4, 1, rows, rows}};
  model.outputs = {{"y", NRT_DTYPE_BFLOAT16, {4, 3}, 24, 2, size_t{6} * rows, size_t{3} * rows}};
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 1 << 16) return 0;
  const ModelSpec model = model_with((data[0] & 1) != 0);
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::optional<uint64_t> json;
  if ((data[0] & 4) != 0) json = data[1];
  const auto form = (data[0] & 2) != 0 ? kserve_form(json) : own_form();
  Asked job;
  if (const auto error = form->read(body, model, job)) {
    if (error->message.empty() || error->offset > body.size()) std::abort();
    return 0;
  }
  size_t row = 0;
  for (const TensorSpec& input : model.inputs) row += input.row_bytes;
  if (job.rows == 0 || job.rows > model.batch || job.input.size() != job.rows * row) std::abort();
  job.output.assign(model.outputs[0].row_bytes * job.rows, '\x3f');
  std::string answer;
  form->write(model, job, answer);
  if (answer.empty()) std::abort();
  return 0;
}
