// SPDX-License-Identifier: Apache-2.0
#include "tools/execution/session.h"

#include <random>

#include "tools/common/progress_bar.h"
#include "tools/execution/core_claim.h"

namespace neuron::execution {
namespace {

// Bytes that are small finite numbers in every type, and zeros of no type that compress away.
std::vector<uint8_t> contents(size_t size, Fill fill) {
  std::vector<uint8_t> bytes(size);
  if (fill == Fill::kZero) return bytes;
  std::mt19937 random(static_cast<unsigned>(size));
  std::uniform_int_distribution<int> small(0, 0x1f);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(small(random));
  return bytes;
}

}  // namespace

runtime::Error failure(const std::string& what, NRT_STATUS status) {
  const char* sentence = nrt_open_last_error();
  return runtime::fail(
      status, "{}: {}", what,
      sentence != nullptr && *sentence != 0 ? sentence : nrt_get_status_as_str(status));
}

Result<std::unique_ptr<Session>> Session::open(uint32_t wanted) {
  if (wanted != 0) claim_only(wanted);
  const NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
  if (status != NRT_SUCCESS) return failure("the devices cannot be used", status);
  auto session = std::make_unique<Session>();
  if (const NRT_STATUS counted = nrt_get_visible_vnc_count(&session->cores_)) {
    return failure("counting cores", counted);
  }
  char type[64] = "";
  nrt_open_get_instance_type(type, sizeof type);
  session->instance_type_ = type;
  return session;
}

Session::~Session() { nrt_close(); }

Result<Tensor> Tensor::allocate(uint32_t core, size_t size, bool host) {
  Tensor tensor;
  const NRT_STATUS status =
      nrt_tensor_allocate(host ? NRT_TENSOR_PLACEMENT_HOST : NRT_TENSOR_PLACEMENT_DEVICE,
                          static_cast<int>(core), size, "tool", &tensor.handle_);
  if (status != NRT_SUCCESS) return failure("a tensor", status);
  return tensor;
}

Tensor::~Tensor() {
  if (handle_ != nullptr) nrt_tensor_free(&handle_);
}

Result<void> Port::write(const std::vector<uint8_t>& contents) const {
  if (const NRT_STATUS s = nrt_tensor_write(tensor.get(), contents.data(), 0, bytes)) {
    return failure("writing input " + name, s);
  }
  return {};
}

Result<std::vector<uint8_t>> Port::read() const {
  std::vector<uint8_t> contents(bytes);
  if (const NRT_STATUS s = nrt_tensor_read(tensor.get(), contents.data(), 0, bytes)) {
    return failure("reading " + name, s);
  }
  return contents;
}

Result<std::unique_ptr<Model>> Model::load(const std::vector<uint8_t>& neff, uint32_t core,
                                           uint32_t collective_ranks) {
  std::unique_ptr<Model> model(new Model());
  const NRT_STATUS loaded =
      collective_ranks == 0
          ? nrt_load(neff.data(), neff.size(), static_cast<int>(core), 1, &model->model_)
          : nrt_load_collectives(neff.data(), neff.size(), static_cast<int>(core), 1,
                                 static_cast<int>(core), static_cast<int>(collective_ranks),
                                 &model->model_);
  if (loaded != NRT_SUCCESS) return failure("loading the NEFF", loaded);
  NEURON_CHECK(model->bind(core));
  return model;
}

Result<std::unique_ptr<Model>> Model::load_file(const std::string& path, uint32_t core) {
  std::unique_ptr<Model> model(new Model());
  const NRT_STATUS loaded = [&] {
    tools::ProgressBar bar("loading " + path);
    const auto show = [](void* context, uint64_t done, uint64_t total) {
      static_cast<tools::ProgressBar*>(context)->show(done, total);
      return 1;
    };
    return nrt_open_load_file_with_progress(path.c_str(), static_cast<int>(core), 1, show, &bar,
                                            &model->model_);
  }();
  if (loaded != NRT_SUCCESS) return failure("loading " + path, loaded);
  NEURON_CHECK(model->bind(core));
  return model;
}

Result<void> Model::bind(uint32_t core) {
  if (const NRT_STATUS s = nrt_allocate_tensor_set(&inputs_)) return failure("a set", s);
  if (const NRT_STATUS s = nrt_allocate_tensor_set(&outputs_)) return failure("a set", s);
  nrt_tensor_info_array_t* info = nullptr;
  if (const NRT_STATUS s = nrt_get_model_tensor_info(model_, &info)) {
    return failure("the NEFF's inputs and outputs", s);
  }
  const std::unique_ptr<nrt_tensor_info_array_t, NRT_STATUS (*)(nrt_tensor_info_array_t*)> owner(
      info, nrt_free_model_tensor_info);
  for (uint64_t i = 0; i < info->tensor_count; ++i) {
    const nrt_tensor_info_t& entry = info->tensor_array[i];
    NEURON_TRY(tensor, Tensor::allocate(core, entry.size));
    const bool input = entry.usage == NRT_TENSOR_USAGE_INPUT;
    if (const NRT_STATUS s =
            nrt_add_tensor_to_tensor_set(input ? inputs_ : outputs_, entry.name, tensor.get())) {
      return failure(std::string("tensor ") + entry.name, s);
    }
    ports_.push_back({.name = entry.name,
                      .input = input,
                      .dtype = entry.dtype,
                      .shape = std::vector<uint64_t>(entry.shape, entry.shape + entry.ndim),
                      .bytes = entry.size,
                      .tensor = std::move(tensor)});
  }
  return {};
}

Result<void> Model::fill(Fill fill) const {
  for (const Port& port : ports_) {
    if (port.input) NEURON_CHECK(port.write(contents(port.bytes, fill)));
  }
  return {};
}

Model::~Model() {
  if (inputs_ != nullptr) nrt_destroy_tensor_set(&inputs_);
  if (outputs_ != nullptr) nrt_destroy_tensor_set(&outputs_);
  ports_.clear();
  if (model_ != nullptr) nrt_unload(model_);
}

Result<nrt_open_execution_report_t> Model::execute() {
  if (const NRT_STATUS s = nrt_execute(model_, inputs_, outputs_)) return failure("executing", s);
  nrt_open_execution_report_t report = {};
  report.size = sizeof report;
  if (const NRT_STATUS s = nrt_open_get_execution_report(model_, &report)) {
    return failure("the report of an execution", s);
  }
  return report;
}

}  // namespace neuron::execution
