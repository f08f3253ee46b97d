// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/grpc/rpc_form.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <type_traits>

#include "driver/base/format.h"
#include "tools/neuron-serve/grpc/inference.pb.h"
#include "tools/neuron-serve/grpc/rpc_call.h"
#include "tools/neuron-serve/message/infer_form.h"

namespace neuron::serve {
namespace {

using inference::InferTensorContents;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

template <class Field>
std::string join(const Field& sizes, size_t first = 0) {
  std::string text;
  for (size_t i = first; i < static_cast<size_t>(sizes.size()); ++i) {
    text += (text.empty() ? "" : ", ") + std::to_string(sizes[static_cast<int>(i)]);
  }
  return text;
}

// Calls `use` with an element of this type and the accessor of its typed field; false: the
// protocol has no numbers of this type.
template <class Use>
bool with_field(nrt_dtype_t dtype, Use use) {
  switch (dtype) {
    case NRT_DTYPE_FLOAT32:
    case NRT_DTYPE_FP32R:
      return use(float(), &InferTensorContents::mutable_fp32_contents);
    case NRT_DTYPE_INT8:
      return use(int8_t(), &InferTensorContents::mutable_int_contents);
    case NRT_DTYPE_INT16:
      return use(int16_t(), &InferTensorContents::mutable_int_contents);
    case NRT_DTYPE_INT32:
      return use(int32_t(), &InferTensorContents::mutable_int_contents);
    case NRT_DTYPE_INT64:
      return use(int64_t(), &InferTensorContents::mutable_int64_contents);
    case NRT_DTYPE_UINT8:
      return use(uint8_t(), &InferTensorContents::mutable_uint_contents);
    case NRT_DTYPE_UINT16:
      return use(uint16_t(), &InferTensorContents::mutable_uint_contents);
    case NRT_DTYPE_UINT32:
      return use(uint32_t(), &InferTensorContents::mutable_uint_contents);
    case NRT_DTYPE_UINT64:
      return use(uint64_t(), &InferTensorContents::mutable_uint64_contents);
    default:
      return false;
  }
}

bool has_field(nrt_dtype_t dtype) {
  return with_field(dtype, [](auto, auto) { return true; });
}

// Appends typed numbers as the device has them; a sentence, or "".
std::string take_numbers(InferTensorContents& contents, const TensorSpec& spec, bool truth,
                         size_t count, std::string& bytes) {
  if (truth) {
    const auto& values = contents.bool_contents();
    if (static_cast<size_t>(values.size()) != count) {
      return "bool_contents has " + std::to_string(values.size()) + " elements, its shape has " +
             std::to_string(count);
    }
    for (const bool value : values) bytes.push_back(value ? 1 : 0);
    return "";
  }
  std::string why;
  const bool known = with_field(spec.dtype, [&](auto element, auto field) {
    using Element = decltype(element);
    const auto& values = *(contents.*field)();
    if (static_cast<size_t>(values.size()) != count) {
      why = "the field of contents for " + kserve_type(spec.dtype) + " has " +
            std::to_string(values.size()) + " elements, its shape has " + std::to_string(count);
      return true;
    }
    if constexpr (std::is_same_v<Element, std::remove_cvref_t<decltype(values[0])>>) {
      bytes.append(reinterpret_cast<const char*>(values.data()), count * sizeof(Element));
    } else {
      for (const auto value : values) {
        const auto narrow = static_cast<Element>(value);
        if (narrow != value) {
          why = std::to_string(value) + " is no " + kserve_type(spec.dtype);
          return true;
        }
        bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
      }
    }
    return true;
  });
  if (!known) return kserve_type(spec.dtype) + " has no field in contents; send raw_input_contents";
  return why;
}

void give_numbers(const char* data, size_t bytes, const TensorSpec& spec,
                  InferTensorContents& contents) {
  with_field(spec.dtype, [&](auto element, auto field) {
    auto* const values = (contents.*field)();
    values->Reserve(static_cast<int>(bytes / sizeof(element)));
    for (size_t at = 0; at < bytes; at += sizeof(element)) {
      std::memcpy(&element, data + at, sizeof(element));
      values->AddAlreadyReserved(element);
    }
    return true;
  });
}

std::string names_of(const std::vector<TensorSpec>& tensors) {
  std::string names;
  for (const TensorSpec& tensor : tensors) names += (names.empty() ? "" : ", ") + tensor.name;
  return names;
}

size_t find(const std::vector<TensorSpec>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorSpec& tensor) { return tensor.name == name; });
  return static_cast<size_t>(found - tensors.begin());
}

}  // namespace

struct RpcForm::Parts {
  ModelInferRequest request;
  std::string id;
  std::vector<size_t> outputs;  // in the order of the request
  bool raw = true;

  std::string read_input(ModelInferRequest::InferInputTensor& input, const std::string* raw,
                         const ModelSpec& model, const TensorSpec& spec, uint64_t& rows,
                         std::string& bytes) const {
    const std::string type = kserve_type(spec.dtype);
    const bool truth = input.datatype() == "BOOL" && spec.dtype == NRT_DTYPE_UINT8;
    if (input.datatype() != type && !truth) {
      return "found datatype \"" + input.datatype() + "\", expected " + type;
    }
    const auto& shape = input.shape();
    bool fits = static_cast<size_t>(shape.size()) == spec.shape.size();
    for (size_t d = model.batched ? 1 : 0; fits && d < spec.shape.size(); ++d) {
      fits = shape[static_cast<int>(d)] == spec.shape[d];
    }
    if (fits && model.batched) fits = shape[0] >= 1 && shape[0] <= model.batch;
    if (!fits) {
      const std::string rest = join(spec.shape, model.batched ? 1 : 0);
      return "found shape [" + join(shape) + "], expected [" +
             (model.batched ? "1.." + std::to_string(model.batch) + (rest.empty() ? "" : ", ")
                            : "") +
             rest + "]";
    }
    rows = model.batched ? static_cast<uint64_t>(shape[0]) : 1;
    const size_t size = spec.row_bytes * rows;
    if (raw == nullptr) {
      bytes.reserve(size);
      return take_numbers(*input.mutable_contents(), spec, truth, spec.row_items * rows, bytes);
    }
    if (input.has_contents()) {
      return "it has contents, and raw_input_contents are there; expected one of these for all";
    }
    if (raw->size() != size) {
      return "raw_input_contents has " + std::to_string(raw->size()) +
             " bytes for it, a tensor of this shape has " + std::to_string(size);
    }
    bytes = *raw;
    return "";
  }

  std::string read_inputs(const ModelSpec& model, Job& job) {
    raw = request.raw_input_contents_size() != 0;
    if (raw && request.raw_input_contents_size() != request.inputs_size()) {
      return "raw_input_contents: found " + std::to_string(request.raw_input_contents_size()) +
             " of them for " + std::to_string(request.inputs_size()) + " inputs";
    }
    std::vector<std::string> values(model.inputs.size());
    std::vector<uint64_t> rows(model.inputs.size());
    for (int i = 0; i < request.inputs_size(); ++i) {
      auto& input = *request.mutable_inputs(i);
      const size_t index = find(model.inputs, input.name());
      const std::string field = "inputs." + input.name() + ": ";
      if (index == model.inputs.size()) {
        return field + "the model has no such input; it has " + names_of(model.inputs);
      }
      if (rows[index] != 0) return field + "this input was given before";
      const std::string why = read_input(input, raw ? &request.raw_input_contents(i) : nullptr,
                                         model, model.inputs[index], rows[index], values[index]);
      if (!why.empty()) return field + why;
    }
    job.rows = values.empty() ? 1 : static_cast<uint32_t>(rows[0]);
    job.input.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string field = "inputs." + model.inputs[i].name + ": ";
      if (rows[i] == 0) return field + "this input is missing";
      if (rows[i] != job.rows) {
        return field + "it has " + std::to_string(rows[i]) + " rows and " + model.inputs[0].name +
               " has " + std::to_string(job.rows);
      }
      if (i == 0) {
        job.input.swap(values[i]);
      } else {
        job.input += values[i];
      }
    }
    return "";
  }

  std::string read_outputs(const ModelSpec& model) {
    outputs.clear();
    for (const auto& output : request.outputs()) {
      const size_t index = find(model.outputs, output.name());
      if (index == model.outputs.size()) {
        return "outputs." + output.name() + ": the model has no such output; it has " +
               names_of(model.outputs);
      }
      if (std::find(outputs.begin(), outputs.end(), index) != outputs.end()) {
        return "outputs." + output.name() + ": this output was asked for before";
      }
      outputs.push_back(index);
    }
    if (outputs.empty()) {
      for (size_t i = 0; i < model.outputs.size(); ++i) outputs.push_back(i);
    }
    for (const size_t index : outputs) raw = raw || !has_field(model.outputs[index].dtype);
    return "";
  }
};

RpcForm::RpcForm() : parts_(std::make_unique<Parts>()) {
  // What clients send is told to them, and not to the operator.
  [[maybe_unused]] static const auto handler = google::protobuf::SetLogHandler(nullptr);
}
RpcForm::~RpcForm() = default;

bool RpcForm::parse(const std::string& message) { return parts_->request.ParseFromString(message); }
const std::string& RpcForm::model() const { return parts_->request.model_name(); }
const std::string& RpcForm::version() const { return parts_->request.model_version(); }

std::string RpcForm::read(const ModelSpec& model, Job& job) {
  std::string why = parts_->read_inputs(model, job);
  if (why.empty()) why = parts_->read_outputs(model);
  parts_->id = parts_->request.id();
  // The tensors are the job's now.
  ModelInferRequest().Swap(&parts_->request);
  return why;
}

std::string RpcForm::write(const ModelSpec& model, const Job& job) const {
  // Lengths in messages have 31 bits.
  if (job.output.size() > INT_MAX) return "";
  ModelInferResponse response;
  response.set_model_name(name_of(model.name));
  response.set_model_version(version_of(model.name));
  response.set_id(parts_->id);
  auto& parameters = *response.mutable_parameters();
  const std::chrono::duration<double, std::micro> waited = job.started - job.accepted;
  parameters["batch_rows"].set_int64_param(job.batch_rows);
  parameters["queue_us"].set_double_param(waited.count());
  parameters["host_us"].set_double_param(static_cast<double>(job.host_ns) / 1e3);
  parameters["device_us"].set_double_param(static_cast<double>(job.device_ps) / 1e6);
  for (const size_t index : parts_->outputs) {
    const TensorSpec& spec = model.outputs[index];
    size_t before = 0;
    for (size_t i = 0; i < index; ++i) before += model.outputs[i].row_bytes;
    const char* const data = job.output.data() + before * job.rows;
    const size_t bytes = spec.row_bytes * job.rows;
    auto& output = *response.add_outputs();
    output.set_name(spec.name);
    output.set_datatype(kserve_type(spec.dtype));
    for (size_t d = 0; d < spec.shape.size(); ++d) {
      output.add_shape(d == 0 && model.batched ? job.rows : spec.shape[d]);
    }
    if (parts_->raw) {
      response.add_raw_output_contents(data, bytes);
    } else {
      give_numbers(data, bytes, spec, *output.mutable_contents());
    }
  }
  return response.SerializeAsString();
}

bool RpcName::parse(const std::string& message) {
  inference::ModelReadyRequest request;
  if (!request.ParseFromString(message)) return false;
  name = request.name();
  version = request.version();
  return true;
}

std::string rpc_no_message(size_t max_body) {
  const bool changes = max_body < kMostRpcMessage;
  return base::format("the message is larger than {} bytes, {}, or there was none",
                      changes ? max_body : kMostRpcMessage,
                      changes ? "which --max-body may change" : "the most that gRPC takes here");
}

std::string rpc_truth(bool value) {
  inference::ModelReadyResponse response;
  response.set_ready(value);
  return response.SerializeAsString();
}

std::string rpc_server_metadata(const std::string& name, const std::string& version) {
  inference::ServerMetadataResponse response;
  response.set_name(name);
  response.set_version(version);
  return response.SerializeAsString();
}

std::string rpc_model_metadata(const ModelSpec& model, const std::vector<std::string>& versions) {
  inference::ModelMetadataResponse response;
  response.set_name(name_of(model.name));
  for (const std::string& version : versions) response.add_versions(version);
  response.set_platform("neuron_neff");
  const auto describe = [&](const std::vector<TensorSpec>& tensors, auto add) {
    for (const TensorSpec& spec : tensors) {
      auto* const tensor = add();
      tensor->set_name(spec.name);
      tensor->set_datatype(kserve_type(spec.dtype));
      for (size_t d = 0; d < spec.shape.size(); ++d) {
        tensor->add_shape(d == 0 && model.batched ? -1 : static_cast<int64_t>(spec.shape[d]));
      }
    }
  };
  describe(model.inputs, [&] { return response.add_inputs(); });
  describe(model.outputs, [&] { return response.add_outputs(); });
  return response.SerializeAsString();
}

}  // namespace neuron::serve
