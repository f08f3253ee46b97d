// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/bind_tensors.h"

#include <atomic>

#include "runtime/tensor/tensor.h"

namespace neuron::runtime {
namespace {

const char* direction(const ModelPort& port) { return port.output ? "output" : "input"; }

// Fails if the core of the model reaches the tensor neither directly nor through staging memory.
Result<void> check_place(const LoadedModel& model, const ModelPort& port, const TensorView& view) {
  if (!view.storage->reachable()) return {};
  const Core& core = model.core();
  const DeviceMemory& memory = *view.storage->memory();
  if (&memory.device() != &core.device() || (!memory.host() && memory.core() != core.number())) {
    return fail(NRT_INVALID,
                "{} tensor '{}' is in memory of device {} core {}, but model '{}' runs on device "
                "{} core {}; allocate it with the vnc of the model",
                direction(port), port.info.name, memory.device().index(), memory.core(),
                model.name(), core.device().index(), core.number());
  }
  return {};
}

// The device address of the tensor's bytes; of staging memory if the device cannot reach them.
Result<uint64_t> place(LoadedModel& model, size_t index, const TensorView& view,
                       Resolution& resolution) {
  if (view.storage->reachable()) return view.storage->memory()->address() + view.offset;
  const ModelPort& port = model.ports()[index];
  Core& core = model.core();
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

Result<void> match_port(Session& session, const LoadedModel& model, const ModelPort& port,
                        const TensorSet& set, MatchedTensors& matched) {
  void* handle = set.find(port.info.name);
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
  TensorView view = tensor->view();
  if (view.storage == nullptr) {
    return fail(NRT_INVALID,
                "{} tensor '{}' of model '{}' is empty; attach a buffer of {} bytes first",
                direction(port), port.info.name, model.name(), port.info.size);
  }
  if (view.size != port.info.size) {
    return fail(NRT_INVALID, "{} tensor '{}' of model '{}' has {} bytes; the model expects {}",
                direction(port), port.info.name, model.name(), view.size, port.info.size);
  }
  NEURON_CHECK(check_place(model, port, view));
  matched.ports.push_back(std::move(view));
  if (port.output) matched.written.push_back(tensor->completions());
  return {};
}

}  // namespace

uint64_t private_version() {
  static std::atomic<uint64_t> next{UINT64_MAX};
  return next.fetch_sub(1, std::memory_order_relaxed);
}

Result<std::shared_ptr<const MatchedTensors>> match(Session& session, LoadedModel& model,
                                                    const TensorSet& inputs,
                                                    const TensorSet& outputs) {
  // Repeated if a tensor changes meanwhile, so that versions and epoch identify these tensors.
  constexpr int kAttempts = 8;
  for (int attempt = 1;; ++attempt) {  // bounded: by kAttempts
    auto matched = std::make_shared<MatchedTensors>();
    matched->inputs = inputs.version();
    matched->outputs = outputs.version();
    // Acquire: pairs with the threads that free or change a tensor; their change is seen below, or
    // the epoch is old and the sets are matched again.
    matched->epoch = session.tensor_epoch.load(std::memory_order_acquire);
    for (const ModelPort& port : model.ports()) {
      NEURON_CHECK(match_port(session, model, port, port.output ? outputs : inputs, *matched));
    }
    const bool same = matched->inputs == inputs.version() && matched->outputs == outputs.version();
    if (same && matched->epoch == session.tensor_epoch.load(std::memory_order_acquire)) {
      return matched;
    }
    if (attempt < kAttempts) continue;
    if (!same) {
      return fail(NRT_INVALID,
                  "the tensor sets of model '{}' were changed by another thread all the while; "
                  "change sets before they are executed",
                  model.name());
    }
    // Tensors change all the time, so this match never got a stable epoch. Under a private version
    // no later execution finds it.
    matched->inputs = private_version();
    return matched;
  }
}

Result<Resolution*> resolve(LoadedModel& model, const MatchedTensors& tensors) {
  Resolution resolution;
  resolution.inputs = tensors.inputs;
  resolution.outputs = tensors.outputs;
  resolution.epoch = tensors.epoch;
  resolution.written = tensors.written;
  std::vector<uint64_t> ports;
  std::vector<uint64_t> addresses[2] = {model.addresses(), {}};
  if (model.second() != nullptr) addresses[1] = model.second()->addresses();
  for (size_t i = 0; i < model.ports().size(); ++i) {
    const ModelPort& port = model.ports()[i];
    NEURON_TRY(address, place(model, i, tensors.ports[i], resolution));
    uint64_t& known = addresses[port.info.subgraph][port.info.variable];
    if (known != 0 && known != address) {
      return fail(NRT_INVALID,
                  "'{}' of model '{}' is input and output in one buffer, but the sets give two "
                  "different tensors; put the same one into both",
                  port.info.name, model.name());
    }
    known = address;
    ports.push_back(address);
  }
  resolution.binding = model.bindings.find_binding(ports);
  if (resolution.binding == nullptr) {
    auto binding = std::make_unique<Binding>();
    NEURON_TRY(rings, DescriptorRings::create(model.core().device(), model.core().number(),
                                              model.rings(), addresses[0], model.port_pointers()));
    binding->rings = std::move(rings);
    if (LoadedModel* second = model.second()) {
      NEURON_TRY(others,
                 DescriptorRings::create(second->core().device(), second->core().number(),
                                         second->rings(), addresses[1], second->port_pointers()));
      binding->second_rings = std::move(others);
    }
    binding->ports = std::move(ports);
    const Binding* evicted = nullptr;
    resolution.binding = model.bindings.keep_binding(std::move(binding), evicted);
    if (evicted != nullptr && model.core().current_binding == evicted) {
      model.core().current_binding = nullptr;
      if (model.second() != nullptr) model.second()->core().current_binding = nullptr;
    }
  }
  return model.bindings.keep(std::move(resolution));
}

}  // namespace neuron::runtime
