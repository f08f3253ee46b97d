// SPDX-License-Identifier: Apache-2.0
//
// Tensors: allocation, contents, slices, attached buffers, completion counts.
#include "nrt/nrt.h"
#include "nrt/nrt_open.h"
#include "runtime/api/guard.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/log.h"
#include "runtime/model/file_reader.h"
#include "runtime/neff/text.h"
#include "runtime/tensor/tensor.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

constexpr size_t kPinnedLimit = 4u << 20;  // one page of a kernel with huge pages
constexpr auto kWarnAfter = std::chrono::seconds(30);

// Tensor names are used in sentences only. They are made printable and cut to a limit on entry.
std::string name_or(const char* name, const char* otherwise) {
  return name != nullptr && *name != '\0' ? neuron::neff::printable(name) : otherwise;
}

Result<Pin<Tensor>> pin_tensor(Session& session, const nrt_tensor_t* tensor,
                               const char* what = "tensor") {
  return pin<Tensor>(session, tensor, HandleKind::kTensor, what);
}

Result<std::shared_ptr<Storage>> allocate_storage(Session& session,
                                                  nrt_tensor_placement_t placement, int vnc,
                                                  size_t size, const std::string& name) {
  const std::string quoted = "tensor '" + name + "'";
  switch (placement) {
    case NRT_TENSOR_PLACEMENT_DEVICE: {
      NEURON_TRY(core, session.core(vnc));
      return Storage::device(core->device(), core->number(), size, session.mappings,
                             quoted.c_str());
    }
    case NRT_TENSOR_PLACEMENT_HOST: {
      if (size > kPinnedLimit) {
        return fail(
            NRT_INVALID,
            "tensor '{}' was asked for with {} bytes in host memory that the device reaches; "
            "the most is {} bytes, use placement DEVICE or VIRTUAL",
            name, size, kPinnedLimit);
      }
      NEURON_TRY(core, session.core(vnc == -1 ? 0 : vnc));
      return Storage::pinned(core->device(), core->number(), size, session.mappings,
                             quoted.c_str());
    }
    case NRT_TENSOR_PLACEMENT_VIRTUAL:
      return Storage::plain(size, name.c_str());
  }
  return fail(NRT_INVALID, "tensor placement {} is none of DEVICE (0), HOST (1), VIRTUAL (2)",
              static_cast<int>(placement));
}

Result<void> hand_out(Session& session, std::unique_ptr<Tensor> tensor, nrt_tensor_t** out) {
  NEURON_TRY(handle, session.handles.insert(HandleKind::kTensor, std::move(tensor)));
  *out = static_cast<nrt_tensor_t*>(handle);
  return {};
}

// The executor knows sets by their version, so it must be told when one of their tensors changes.
void tell_executor(Session& session, const Tensor& tensor) {
  if (tensor.in_set.load(std::memory_order_relaxed)) {
    session.tensor_epoch.fetch_add(1, std::memory_order_release);
  }
}

TraceSpan access_span(Session& session, TraceEvent event, const Tensor& tensor, size_t size) {
  SystemTrace::Details details{.name = tensor.name(), .bytes = size};
  if (session.system_trace.running()) {
    if (const TensorView view = tensor.view(); view.storage) {
      details.core = session.core_of(*view.storage);
    }
  }
  return TraceSpan(session.system_trace, event, details);
}

// Checks the whole batch before any data moves.
template <class Move>
Result<void> batch(Session& session, const nrt_tensor_batch_t* batches, uint64_t count,
                   const char* what, Move&& move) {
  if (batches == nullptr && count != 0) return null_argument("batches");
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, sizeof(*batches), &bytes)) {
    return fail(NRT_INVALID, "no process has {} batches; give how many there are", count);
  }
  NEURON_CHECK(check_host_memory(batches, bytes, HostUse::kRead));
  std::vector<Pin<Tensor>> tensors;
  for (uint64_t b = 0; b < count; ++b) {
    NEURON_TRY(tensor, pin_tensor(session, batches[b].tensor));
    if (batches[b].ops == nullptr && batches[b].num_ops != 0) return null_argument("ops");
    NEURON_CHECK(check_host_memory(batches[b].ops, batches[b].num_ops * sizeof(*batches[b].ops),
                                   HostUse::kRead));
    for (uint32_t i = 0; i < batches[b].num_ops; ++i) {
      const nrt_tensor_batch_op_t& op = batches[b].ops[i];
      if (op.buffer == nullptr && op.size != 0) return null_argument("buffer");
      if (auto range = tensor->range(what, op.offset, op.size); !range) {
        return range.error().with("batch {} operation {}", b, i);
      }
    }
    tensors.push_back(std::move(tensor));
  }
  for (uint64_t b = 0; b < count; ++b) {
    for (uint32_t i = 0; i < batches[b].num_ops; ++i) {
      if (auto moved = move(*tensors[b], batches[b].ops[i]); !moved) {
        return moved.error().with("batch {} operation {}", b, i);
      }
    }
  }
  return {};
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t tensor_placement, int vnc,
                                          size_t size, const char* name, nrt_tensor_t** tensor) {
  return guarded("nrt_tensor_allocate", [&](Session& session) -> Result<void> {
    if (tensor == nullptr) return null_argument("tensor");
    if (size == 0) {
      return fail(NRT_INVALID,
                  "tensor '{}' was asked for with 0 bytes; a tensor has at least 1 byte",
                  name_or(name, "tensor"));
    }
    std::string text = name_or(name, "tensor");
    const TraceSpan span(
        session.system_trace, TraceEvent::kTensorAllocate,
        {.core = static_cast<uint32_t>(std::max(vnc, 0)), .name = text, .bytes = size});
    auto storage = allocate_storage(session, tensor_placement, vnc, size, text);
    if (!storage) return storage.error();
    return hand_out(
        session, std::make_unique<Tensor>(std::move(text), TensorView{*storage, 0, size}), tensor);
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_allocate_empty(const char* name, nrt_tensor_t** tensor) {
  return guarded("nrt_tensor_allocate_empty", [&](Session& session) -> Result<void> {
    if (tensor == nullptr) return null_argument("tensor");
    return hand_out(session, std::make_unique<Tensor>(name_or(name, "tensor"), TensorView{}),
                    tensor);
  });
}

NRT_EXPORT void nrt_tensor_free(nrt_tensor_t** tensor) {
  if (tensor == nullptr || *tensor == nullptr) return;
  nrt_tensor_t* handle = *tensor;
  *tensor = nullptr;
  unguarded_state("nrt_tensor_free", [&]() -> Result<void> {
    SessionUse use;
    // nrt_close has freed what was left; freeing it once more is no mistake.
    if (!use) return {};
    NEURON_TRY(object, pin_tensor(*use, handle));
    const TraceSpan span = access_span(*use, TraceEvent::kTensorFree, *object, object->size());
    if (use->handles.remove(handle, HandleKind::kTensor)) tell_executor(*use, *object);
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buf, size_t offset,
                                      size_t size) {
  return guarded("nrt_tensor_read", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_tensor(session, tensor));
    if (buf == nullptr && size != 0) return null_argument("buf");
    const TraceSpan span = access_span(session, TraceEvent::kTensorRead, *object, size);
    return object->read(buf, offset, size);
  });
}

NRT_EXPORT NRT_STATUS nrt_open_tensor_read_file(nrt_tensor_t* tensor, size_t offset,
                                                const char* path, uint64_t file_offset,
                                                size_t size) {
  return guarded("nrt_open_tensor_read_file", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_tensor(session, tensor));
    if (path == nullptr) return null_argument("path");
    NEURON_TRY(view, object->range("reading a file", offset, size));
    NEURON_TRY(file, FileReader::open(path));
    if (file_offset > file->size() || size > file->size() - file_offset) {
      return fail(NRT_INVALID, "{} has {} bytes, and no {} from byte {} on", path, file->size(),
                  size, file_offset);
    }
    const TraceSpan span = access_span(session, TraceEvent::kTensorWrite, *object, size);
    NEURON_TRY(memory, view.storage->address());
    return file->read_directly(file_offset, memory + view.offset + offset, size);
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_write(nrt_tensor_t* tensor, const void* buf, size_t offset,
                                       size_t size) {
  return guarded("nrt_tensor_write", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_tensor(session, tensor));
    if (buf == nullptr && size != 0) return null_argument("buf");
    const TraceSpan span = access_span(session, TraceEvent::kTensorWrite, *object, size);
    return object->write(buf, offset, size);
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t* batches, uint64_t num_batches,
                                            bool) {
  return guarded("nrt_tensor_read_batch", [&](Session& session) -> Result<void> {
    return batch(session, batches, num_batches, "a read",
                 [](const Tensor& tensor, const nrt_tensor_batch_op_t& op) {
                   return tensor.read(op.buffer, op.offset, op.size);
                 });
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t* batches,
                                             uint64_t num_batches, bool) {
  return guarded("nrt_tensor_write_batch", [&](Session& session) -> Result<void> {
    return batch(session, batches, num_batches, "a write",
                 [](Tensor& tensor, const nrt_tensor_batch_op_t& op) {
                   return tensor.write(op.buffer, op.offset, op.size);
                 });
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_copy(const nrt_tensor_t* src, size_t src_offset, nrt_tensor_t* dst,
                                      size_t dst_offset, size_t size) {
  return guarded("nrt_tensor_copy", [&](Session& session) -> Result<void> {
    NEURON_TRY(from, pin_tensor(session, src, "src"));
    NEURON_TRY(to, pin_tensor(session, dst, "dst"));
    return Tensor::copy(*from, src_offset, *to, dst_offset, size);
  });
}

NRT_EXPORT size_t nrt_tensor_get_size(const nrt_tensor_t* tensor) {
  size_t size = 0;
  guarded("nrt_tensor_get_size", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_tensor(session, tensor));
    size = object->size();
    return {};
  });
  return size;
}

NRT_EXPORT NRT_STATUS nrt_tensor_memset(nrt_tensor_t* tensor, uint64_t offset, int value,
                                        size_t size) {
  return guarded("nrt_tensor_memset", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_tensor(session, tensor));
    return object->fill(offset, size, value);
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t* tensor, void* buffer, size_t size) {
  return guarded("nrt_tensor_attach_buffer", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_tensor(session, tensor));
    if (buffer == nullptr) return null_argument("buffer");
    if (size == 0) {
      return fail(NRT_INVALID,
                  "tensor '{}' cannot be given a buffer of 0 bytes; give its size in bytes",
                  object->name());
    }
    object->attach(buffer, size);
    tell_executor(session, *object);
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t* tensor_source, size_t offset,
                                                size_t size, const char* name,
                                                nrt_tensor_t** tensor_slice) {
  return guarded("nrt_tensor_allocate_slice", [&](Session& session) -> Result<void> {
    if (tensor_slice == nullptr) return null_argument("tensor_slice");
    NEURON_TRY(source, pin_tensor(session, tensor_source, "tensor_source"));
    NEURON_TRY(slice, source->slice(offset, size, name_or(name, source->name().c_str())));
    return hand_out(session, std::move(slice), tensor_slice);
  });
}

NRT_EXPORT void* nrt_tensor_get_va(const nrt_tensor_t* tensor) {
  void* address = nullptr;
  guarded("nrt_tensor_get_va", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_tensor(session, tensor));
    NEURON_TRY(view, object->range("the address", 0, 0));
    NEURON_TRY(start, view.storage->address());
    address = start + view.offset;
    return {};
  });
  return address;
}

NRT_EXPORT NRT_STATUS nrt_tensor_get_device_allocation_info(
    const nrt_tensor_t* tensor, nrt_tensor_device_allocation_info_t* alloc_info) {
  return guarded("nrt_tensor_get_device_allocation_info", [&](Session& session) -> Result<void> {
    if (alloc_info == nullptr) return null_argument("alloc_info");
    NEURON_TRY(object, pin_tensor(session, tensor));
    NEURON_TRY(view, object->range("the address", 0, 0));
    if (view.storage->kind() != StorageKind::kDevice) {
      return fail(NRT_INVALID, "tensor '{}' is in host memory, not in HBM", object->name());
    }
    const DeviceMemory& memory = *view.storage->memory();
    alloc_info->physical_address = memory.address() + view.offset;
    alloc_info->size = memory.size() - view.offset;
    alloc_info->hbm_index = static_cast<int>(memory.core());
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t* output_tensor,
                                                         int64_t timeout,
                                                         uint64_t expected_completion_count) {
  return guarded("nrt_tensor_check_output_completion", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_tensor(session, output_tensor, "output_tensor"));
    const CompletionCounter& counter = *object->completions();
    if (timeout >= 0) {
      const neuron::base::Deadline deadline =
          neuron::base::Deadline::after(std::chrono::microseconds(timeout));
      if (session.completion_hub.wait(counter, expected_completion_count, deadline)) return {};
      return fail(NRT_TIMEOUT,
                  "tensor '{}' was written by {} executions after {} us, {} are expected",
                  object->name(), counter.value(), timeout, expected_completion_count);
    }
    // bounded: by the caller, whose negative timeout asks to wait for as long as it takes
    for (bool warned = false;; warned = true) {
      if (session.completion_hub.wait(counter, expected_completion_count,
                                      neuron::base::Deadline::after(kWarnAfter))) {
        return {};
      }
      if (!warned) {
        log_warning(LogComponent::kNrt,
                    "tensor '{}' was written by {} executions after 30 s; still waiting for {}",
                    object->name(), counter.value(), expected_completion_count);
      }
    }
  });
}

NRT_EXPORT NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t* output_tensor) {
  return guarded("nrt_tensor_reset_output_completion", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin_tensor(session, output_tensor, "output_tensor"));
    object->completions()->reset();
    return {};
  });
}
