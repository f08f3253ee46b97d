// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/host_driven.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "driver/isa/instruction.h"
#include "runtime/collectives/connect.h"
#include "runtime/device/core_turn.h"
#include "runtime/exec/bind_tensors.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/host_collective_cache.h"
#include "runtime/profile/inspection.h"
#include "runtime/profile/profiles.h"

namespace neuron::runtime {
namespace {

uint64_t bytes_of(const std::vector<TensorView>& tensors) {
  uint64_t bytes = 0;
  for (const TensorView& tensor : tensors) bytes += tensor.size;
  return bytes;
}

uint64_t address_of(const TensorView& tensor) {
  return tensor.storage->memory()->address() + tensor.offset;
}

// Two preparations with the same key are one.
std::vector<uint64_t> key_of(const Core& core, const HostCollectiveRequest& request) {
  std::vector<uint64_t> key = {core.index(), request.operation, request.type, request.reduction,
                               request.group.size()};
  key.insert(key.end(), request.group.begin(), request.group.end());
  for (const auto* list : {&request.inputs, &request.outputs}) {
    key.push_back(list->size());
    for (const TensorView& tensor : *list) {
      // usable() detects a new storage at the address of a freed one.
      key.push_back(reinterpret_cast<uintptr_t>(tensor.storage.get()));
      key.push_back(tensor.offset);
      key.push_back(tensor.size);
    }
  }
  return key;
}

Result<void> check_place(const Core& core, const std::vector<TensorView>& tensors,
                         const char* side) {
  if (tensors.empty()) return fail(NRT_INVALID, "the {} list has no tensor", side);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].storage == nullptr || tensors[i].storage->kind() != StorageKind::kDevice) {
      return fail(NRT_INVALID,
                  "{} tensor {} is not in device memory; collectives move what lies there", side,
                  i);
    }
    const DeviceMemory& memory = *tensors[i].storage->memory();
    if (&memory.device() != &core.device() || memory.core() != core.number()) {
      return fail(
          NRT_INVALID,
          "{} tensor {} is in memory of device {} core {}, this rank is on device {} core {}", side,
          i, memory.device().index(), memory.core(), core.device().index(), core.number());
    }
  }
  return {};
}

Result<neff::Collective> describe(const HostCollectiveRequest& request) {
  neff::Collective c;
  c.operation = request.operation;
  c.type = request.type;
  c.reduction = request.reduction;
  c.groups = {request.group};
  c.input = c.output = neff::kNoTarget;
  const uint64_t in = bytes_of(request.inputs), out = bytes_of(request.outputs);
  const uint64_t element = neff::collective_type_bytes(c.type);
  const uint64_t one = c.operation == CCOM_REDUCE_SCATTER ? out : in;
  c.count = one / element;
  const neff::CollectiveBytes wanted = neff::collective_bytes(c, request.group.size());
  if (one == 0 || one % element != 0 || wanted.input != in || wanted.output != out) {
    return fail(NRT_INVALID,
                "{} of {} among {} ranks has {} bytes of input and {} of output; the one must "
                "follow from the other",
                neff::collective_name(c.operation), neff::collective_type_name(c.type),
                request.group.size(), in, out);
  }
  return c;
}

// Collectives that move different things are different models to whoever looks at executions.
std::array<uint8_t, 16> uuid_of(const neff::Collective& operation) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  for (const uint64_t value : {uint64_t{operation.operation}, uint64_t{operation.type},
                               uint64_t{operation.reduction}, operation.count}) {
    add(value);
  }
  for (const uint32_t rank : operation.groups[0]) add(rank);
  std::array<uint8_t, 16> uuid{};
  for (size_t n = 0; n < uuid.size(); ++n) {
    if (n == 8) add(n);
    uuid[n] = static_cast<uint8_t>(hash >> (8 * (n % 8)));
  }
  return uuid;
}

// cc_trigger, ret.
neff::EngineProgram trigger_program(uint32_t generation) {
  neff::EngineProgram program;
  program.engine = NEURON_ENGINE_SP;
  program.generation = static_cast<uint8_t>(generation);
  isa::Instruction trigger;
  trigger.opcode = NEURON_OP_CC_TRIGGER;
  trigger.engines = 1u << NEURON_ENGINE_SP;
  trigger.address = {0, 0, 1};
  trigger.scalar0 = {.value = 1, .kind = NEURON_SCALAR_IMMEDIATE, .dtype = NEURON_DTYPE_U32};
  isa::Instruction back;
  back.opcode = NEURON_OP_RET;
  back.engines = trigger.engines;
  for (const isa::Instruction& instruction : {trigger, back}) {
    std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
    isa::encode(instruction, bytes);
    const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
    program.code.insert(program.code.end(), first, first + bytes.size());
  }
  program.entries.push_back({"main", 0, 2, NEURON_ENTRY_MAIN});
  neff::Relocation go;
  go.pc = 0;
  go.field = NEURON_ADDRESS_ADDR;
  go.kind = NEURON_RELOC_CORE;
  go.width = 8;
  go.symbol = "cc:0";
  go.addend = NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_INC + NEURON_CC_SEM_GO * 4;
  go.target = neff::kNoTarget;
  program.relocations.push_back(std::move(go));
  return program;
}

}  // namespace

ccom_type_t collective_type_of(nrt_dtype_t dtype) {
  switch (dtype) {
    case NRT_DTYPE_UINT8:
      return CCOM_UINT8;
    case NRT_DTYPE_INT8:
      return CCOM_INT8;
    case NRT_DTYPE_FP8_E3:
      return CCOM_FP8_E3;
    case NRT_DTYPE_FP8_E4:
      return CCOM_FP8_E4;
    case NRT_DTYPE_FP8_E5:
      return CCOM_FP8_E5;
    case NRT_DTYPE_UINT16:
      return CCOM_UINT16;
    case NRT_DTYPE_INT16:
      return CCOM_INT16;
    case NRT_DTYPE_FLOAT16:
      return CCOM_FP16;
    case NRT_DTYPE_BFLOAT16:
      return CCOM_BF16;
    case NRT_DTYPE_UINT32:
      return CCOM_UINT32;
    case NRT_DTYPE_INT32:
      return CCOM_INT32;
    case NRT_DTYPE_FLOAT32:
    case NRT_DTYPE_FP32R:
      return CCOM_FP32;
    case NRT_DTYPE_UINT64:
      return CCOM_UINT64;
    case NRT_DTYPE_INT64:
      return CCOM_INT64;
    default:
      return CCOM_TYPE_COUNT;
  }
}

Result<std::shared_ptr<HostCollective>> HostCollective::prepare(
    Core& core, Session& session, std::shared_ptr<World> world,
    const HostCollectiveRequest& request) {
  NEURON_CHECK(check_place(core, request.inputs, "input"));
  NEURON_CHECK(check_place(core, request.outputs, "output"));
  NEURON_CHECK(describe(request));
  HostCollectiveCache& cache = HostCollectiveCache::of(session);
  const auto key = key_of(core, request);
  std::shared_ptr<HostCollective> known = cache.find(key);
  if (known != nullptr && !known->usable()) known = nullptr;
  const std::byte mine{static_cast<unsigned char>(known != nullptr)};
  NEURON_TRY(all, world->exchange(Occasion::kPrepare, {&mine, 1}));
  const bool everywhere = std::all_of(all.begin(), all.end(), [](const Message& message) {
    return message.size() == 1 && message[0] == std::byte{1};
  });
  if (everywhere) return known;
  std::shared_ptr<HostCollective> made(new HostCollective(session));
  NEURON_CHECK(made->build(core, std::move(world), request));
  cache.keep(key, made);
  return made;
}

// As an unload does, this takes the core's turn: another thread may be executing there.
HostCollective::~HostCollective() {
  if (model_ == nullptr) return;
  auto turn = CoreTurn::take(model_->core());
  if (Profiles* profiles = Profiles::existing(session_)) profiles->end(*model_);
  model_.reset();
}

bool HostCollective::usable() const {
  if (model_->collectives()->broken()) return false;
  for (const auto* list : {&inputs_, &outputs_}) {
    for (const Place& place : *list) {
      if (place.storage.expired()) return false;
    }
  }
  return true;
}

Result<void> HostCollective::build(Core& core, std::shared_ptr<World> world,
                                   const HostCollectiveRequest& request) {
  for (const TensorView& tensor : request.inputs) {
    inputs_.push_back({tensor.storage, tensor.offset, tensor.size});
  }
  for (const TensorView& tensor : request.outputs) {
    outputs_.push_back({tensor.storage, tensor.offset, tensor.size});
  }
  NEURON_TRY(operation, describe(request));
  const auto gather = [&](const std::vector<TensorView>& tensors, const char* purpose,
                          std::unique_ptr<DeviceMemory>& buffer) -> Result<uint64_t> {
    if (tensors.size() == 1) return address_of(tensors[0]);
    NEURON_TRY(memory, DeviceMemory::allocate(core.device(),
                                              {.size = bytes_of(tensors),
                                               .core = core.number(),
                                               .category = NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE,
                                               .purpose = purpose}));
    buffer = std::move(memory);
    return buffer->address();
  };
  NEURON_TRY(from, gather(request.inputs, "the inputs of a collective", input_));
  NEURON_TRY(to, gather(request.outputs, "the outputs of a collective", output_));
  neff::Model model;
  model.name = format("host-driven {}", neff::collective_name(operation.operation));
  model.uuid = uuid_of(operation);
  model.generation = core.device().generation();
  neff::Subgraph& subgraph = model.subgraphs.emplace_back();
  subgraph.name = "host";
  for (uint8_t e = 0; e < NEURON_CORE_ENGINES; ++e) {
    subgraph.engines[e].engine = e;
    subgraph.engines[e].generation = static_cast<uint8_t>(model.generation);
  }
  subgraph.engines[NEURON_ENGINE_SP] = trigger_program(model.generation);
  subgraph.operations.push_back(operation);
  {
    NEURON_TRY(turn, CoreTurn::take(core));
    NEURON_TRY(loaded, LoadedModel::load(core, model));
    model_ = std::move(loaded);
  }
  nothing_.inputs = private_version();
  nothing_.outputs = private_version();
  const CollectiveBuffers buffers{from, to};
  return connect_model(*model_, std::move(world), {&buffers, 1});
}

Result<void> HostCollective::move(const std::vector<Place>& tensors, DeviceMemory& buffer,
                                  bool from_tensors) {
  uint64_t at = 0;
  for (const Place& tensor : tensors) {
    const std::shared_ptr<Storage> storage = tensor.storage.lock();
    if (storage == nullptr) return fail(NRT_INVALID_HANDLE, "a tensor of the collective was freed");
    DeviceMemory& memory = *storage->memory();
    if (from_tensors) {
      NEURON_CHECK(buffer.copy(memory, tensor.offset, at, tensor.size));
    } else {
      NEURON_CHECK(memory.copy(buffer, at, tensor.offset, tensor.size));
    }
    at += tensor.size;
  }
  return {};
}

Result<void> HostCollective::run(Session& session) {
  NEURON_TRY(turn, CoreTurn::take(model_->core()));
  if (input_ != nullptr) NEURON_CHECK(move(inputs_, *input_, true));
  uint32_t done = 0;
  const InspectedExecution inspected(session, *model_);
  NEURON_CHECK(inspected.end(execute_matched(session, *model_, nothing_, 1, done)));
  if (output_ != nullptr) NEURON_CHECK(move(outputs_, *output_, false));
  return {};
}

}  // namespace neuron::runtime
