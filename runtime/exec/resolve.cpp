// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/resolve.h"

#include "runtime/tensor/tensor.h"

namespace neuron::runtime {
namespace {

const char* direction(const ModelPort& port) { return port.output ? "output" : "input"; }

// Where the device finds the tensor's bytes; through staging memory if it cannot reach them.
Result<std::uint64_t> place(LoadedModel& model, std::size_t index, const TensorView& view,
                            Resolution& resolution) {
  const ModelPort& port = model.ports()[index];
  Core& core = model.core();
  if (view.storage->reachable()) {
    const DeviceMemory& memory = *view.storage->memory();
    if (&memory.device() != &core.device() || (!memory.host() && memory.core() != core.number())) {
      return fail(NRT_INVALID,
                  "{} tensor '{}' is in memory of device {} core {}, but model '{}' runs on device "
                  "{} core {}; allocate it with the vnc of the model",
                  direction(port), port.info.name, memory.device().index(), memory.core(),
                  model.name(), core.device().index(), core.number());
    }
    return memory.address() + view.offset;
  }
  auto& staging = model.bindings.staging[index];
  if (staging == nullptr) {
    NEURON_TRY(memory, DeviceMemory::allocate(
                           core.device(), {.size = port.info.size,
                                           .core = core.number(),
                                           .category = NEURON_MEMALLOC_TYPE_TENSORS_DEVICE,
                                           .purpose = "a tensor that is in memory of the host"}));
    staging = std::move(memory);
  }
  StagedTensor staged{view.storage, view.offset, port.info.size, staging.get()};
  (port.output ? resolution.after : resolution.before).push_back(std::move(staged));
  return staging->address();
}

}  // namespace

Result<Resolution*> resolve(Session& session, LoadedModel& model, const TensorSet& inputs,
                            const TensorSet& outputs, std::uint64_t epoch) {
  Resolution resolution;
  resolution.inputs = inputs.version();
  resolution.outputs = outputs.version();
  resolution.epoch = epoch;
  std::vector<std::uint64_t> ports;
  std::vector<std::uint64_t> addresses = model.addresses();
  for (std::size_t i = 0; i < model.ports().size(); ++i) {
    const ModelPort& port = model.ports()[i];
    void* handle = (port.output ? outputs : inputs).find(port.info.name);
    if (handle == nullptr) {
      return fail(NRT_INVALID,
                  "model '{}' needs {} tensor '{}' of {} bytes; the {} set has none of "
                  "that name",
                  model.name(), direction(port), port.info.name, port.info.size, direction(port));
    }
    Pin<Tensor> tensor(session.handles, handle, HandleKind::kTensor);
    if (!tensor) {
      return fail(NRT_INVALID_HANDLE,
                  "{} tensor '{}' was freed while its set still names it; add another one",
                  direction(port), port.info.name);
    }
    const TensorView view = tensor->view();
    if (view.storage == nullptr) {
      return fail(NRT_INVALID,
                  "{} tensor '{}' of model '{}' is empty; attach a buffer of {} bytes first",
                  direction(port), port.info.name, model.name(), port.info.size);
    }
    if (view.size != port.info.size) {
      return fail(NRT_INVALID, "{} tensor '{}' of model '{}' has {} bytes; the model expects {}",
                  direction(port), port.info.name, model.name(), view.size, port.info.size);
    }
    NEURON_TRY(address, place(model, i, view, resolution));
    std::uint64_t& known = addresses[port.info.variable];
    if (known != 0 && known != address) {
      return fail(NRT_INVALID,
                  "'{}' of model '{}' is input and output in one buffer, but the sets give two "
                  "different tensors; put the same one into both",
                  port.info.name, model.name());
    }
    known = address;
    ports.push_back(address);
    if (port.output) resolution.written.push_back(tensor->completions());
  }
  resolution.binding = model.bindings.find_binding(ports);
  if (resolution.binding == nullptr) {
    auto binding = std::make_unique<Binding>();
    NEURON_TRY(rings, RingSet::create(model.core().device(), model.core().number(), model.rings(),
                                      addresses));
    binding->rings = std::move(rings);
    binding->ports = std::move(ports);
    const Binding* evicted = nullptr;
    resolution.binding = model.bindings.keep_binding(std::move(binding), evicted);
    if (evicted != nullptr && model.core().current_binding == evicted) {
      model.core().current_binding = nullptr;
    }
  }
  return model.bindings.keep(std::move(resolution));
}

}  // namespace neuron::runtime
