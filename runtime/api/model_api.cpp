// SPDX-License-Identifier: Apache-2.0
//
// Models: loading, queries, unloading.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "nrt/nrt_open.h"
#include "runtime/api/guard.h"
#include "runtime/api/loading.h"
#include "runtime/base/host_memory.h"
#include "runtime/device/core_turn.h"
#include "runtime/model/file_image.h"
#include "runtime/profile/inspection.h"
#include "runtime/profile/profiles.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

Result<Pin<LoadedModel>> pin_model(Session& session, const nrt_model_t* model) {
  return pin<LoadedModel>(session, model, HandleKind::kModel, "model");
}

// A type for which the interface has no number is reported as an unsigned integer of its width.
nrt_dtype_t public_dtype(uint8_t dtype) {
  switch (dtype) {
    case NEURON_DTYPE_TF32:
      return NRT_DTYPE_FLOAT32;
    case NEURON_DTYPE_F8E4FN:
    case NEURON_DTYPE_E8M0:
      return NRT_DTYPE_UINT8;
    case NEURON_DTYPE_F4X4:
      return NRT_DTYPE_UINT16;
    case NEURON_DTYPE_F8E5X4:
    case NEURON_DTYPE_F8E4FNX4:
      return NRT_DTYPE_UINT32;
    default:
      return static_cast<nrt_dtype_t>(dtype);
  }
}

// One block: header, entries, shapes.
nrt_tensor_info_array_t* make_info(const std::vector<ModelPort>& ports) {
  size_t extents = 0;
  for (const ModelPort& port : ports) extents += port.info.shape.size();
  const size_t entries =
      offsetof(nrt_tensor_info_array_t, tensor_array) + ports.size() * sizeof(nrt_tensor_info_t);
  auto* block = static_cast<std::byte*>(std::calloc(1, entries + extents * sizeof(uint32_t)));
  if (block == nullptr) throw std::bad_alloc();
  auto* info = reinterpret_cast<nrt_tensor_info_array_t*>(block);
  auto* shape = reinterpret_cast<uint32_t*>(block + entries);
  info->tensor_count = ports.size();
  for (size_t i = 0; i < ports.size(); ++i) {
    const neuron::neff::TensorInfo& from = ports[i].info;
    nrt_tensor_info_t& to = info->tensor_array[i];
    std::memcpy(to.name, from.name.data(), std::min(from.name.size(), sizeof(to.name) - 1));
    to.usage = ports[i].output ? NRT_TENSOR_USAGE_OUTPUT : NRT_TENSOR_USAGE_INPUT;
    to.size = from.size;
    to.dtype = public_dtype(from.dtype);
    to.ndim = static_cast<uint32_t>(from.shape.size());
    to.shape = shape;
    shape = std::copy(from.shape.begin(), from.shape.end(), shape);
  }
  return info;
}

NRT_STATUS core_count(const char* name, const nrt_model_t* model, uint32_t* count) {
  return guarded(name, [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_model(session, model));
    if (count == nullptr) return null_argument("vnc_count");
    *count = 1;
    return {};
  });
}

Result<void> load(Session& session, neuron::neff::Bytes file, const FileImage* image, int32_t vnc,
                  int32_t vnc_count, nrt_model_t** model,
                  LoadProgress::Listener progress = nullptr) {
  if (model == nullptr) return null_argument("model");
  NEURON_CHECK(check_core_count(vnc_count));
  Core* core = &session.least_loaded_core();
  if (vnc != -1) {
    NEURON_TRY(named, session.core(vnc));
    core = named;
  }
  const TraceSpan span(session.system_trace, TraceEvent::kLoad,
                       {.core = core->index(), .bytes = file.size()});
  NEURON_TRY(source, LoadedModel::read(read_options(session), *core, file));
  source.image = image;
  source.progress = std::move(progress);
  if (!source.model.subgraphs[0].operations.empty()) {
    return fail(NRT_INVALID,
                "model '{}' has {} collectives: load it with nrt_load_collectives, which says "
                "which of how many ranks this is",
                source.model.name, source.model.subgraphs[0].operations.size());
  }
  // The turn keeps an unload or a reset of the core from happening meanwhile.
  NEURON_TRY(turn, CoreTurn::take(*core));
  NEURON_TRY(loaded, LoadedModel::load(*core, source));
  if (Inspection* inspection = Inspection::existing(session)) {
    inspection->loaded(*loaded, file, image);
  }
  NEURON_TRY(handle, session.handles.insert(HandleKind::kModel, std::move(loaded)));
  *model = static_cast<nrt_model_t*>(handle);
  return {};
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_load(const void* neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                               nrt_model_t** model) {
  return guarded("nrt_load", [&](Session& session) -> Result<void> {
    if (neff_bytes == nullptr) return null_argument("neff_bytes");
    NEURON_CHECK(check_host_memory(neff_bytes, size, HostUse::kRead));
    const neuron::neff::Bytes file(static_cast<const uint8_t*>(neff_bytes), size);
    return load(session, file, nullptr, vnc, vnc_count, model);
  });
}

NRT_EXPORT NRT_STATUS nrt_open_load_file(const char* path, int32_t vnc, int32_t vnc_count,
                                         nrt_model_t** model) {
  return guarded("nrt_open_load_file", [&](Session& session) -> Result<void> {
    if (path == nullptr) return null_argument("path");
    NEURON_TRY(image, FileImage::open(path, session.configuration().validate_hash));
    return load(session, image.bytes(), &image, vnc, vnc_count, model);
  });
}

NRT_EXPORT NRT_STATUS nrt_open_load_file_with_progress(const char* path, int32_t vnc,
                                                       int32_t vnc_count,
                                                       nrt_open_load_progress_t progress,
                                                       void* context, nrt_model_t** model) {
  return guarded("nrt_open_load_file_with_progress", [&](Session& session) -> Result<void> {
    if (path == nullptr) return null_argument("path");
    if (progress == nullptr) return null_argument("progress");
    NEURON_TRY(image, FileImage::open(path, session.configuration().validate_hash));
    return load(session, image.bytes(), &image, vnc, vnc_count, model,
                [=](uint64_t done, uint64_t total) { return progress(context, done, total) != 0; });
  });
}

NRT_EXPORT NRT_STATUS nrt_unload(nrt_model_t* model) {
  return guarded("nrt_unload", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_model(session, model));
    // The turn comes first: a caller that does not get it in time keeps a model that works. A model
    // is retired only in its core's turn. Executions that wait behind this call find the model
    // retired.
    const TraceSpan span(session.system_trace, TraceEvent::kUnload,
                         {.core = object->core().index(), .name = object->name()});
    NEURON_TRY(turn, CoreTurn::take(object->core()));
    if (!session.handles.remove(model, HandleKind::kModel)) {
      return fail(NRT_INVALID_HANDLE, "the model was unloaded by another thread at the same time");
    }
    // A profile that nobody has stopped ends with the model.
    if (Profiles* profiles = Profiles::existing(session)) profiles->end(*object);
    object->retire();
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_get_model_nc_count(const nrt_model_t* model, uint32_t* vnc_count) {
  return core_count("nrt_get_model_nc_count", model, vnc_count);
}
NRT_EXPORT NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t* model, uint32_t* vnc_count) {
  return core_count("nrt_get_model_vnc_count", model, vnc_count);
}

NRT_EXPORT NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model,
                                                nrt_tensor_info_array_t** tensor_info) {
  return guarded("nrt_get_model_tensor_info", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_model(session, model));
    if (tensor_info == nullptr) return null_argument("tensor_info");
    *tensor_info = make_info(object->ports());
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* tensor_info) {
  std::free(tensor_info);
  return NRT_SUCCESS;
}

NRT_EXPORT NRT_STATUS nrt_get_model_instance_count(nrt_model_t* model, uint32_t* instance_count) {
  return guarded("nrt_get_model_instance_count", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_model(session, model));
    if (instance_count == nullptr) return null_argument("instance_count");
    *instance_count = 1;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_get_model_info(const nrt_model_t* model, nrt_model_info_t* info,
                                         size_t info_size_in, size_t* info_size_out) {
  return guarded("nrt_get_model_info", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_model(session, model));
    if (info == nullptr) return null_argument("info");
    if (info_size_in == 0) return fail(NRT_INVALID, "info_size_in is 0");
    const nrt_model_info_t filled{object->core().index()};
    const size_t size = std::min(info_size_in, sizeof(filled));
    std::memcpy(info, &filled, size);
    if (info_size_out != nullptr) *info_size_out = size;
    return {};
  });
}
