// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/loaded_model.h"

#include <atomic>
#include <cstring>

#include "runtime/device/core_trace.h"
#include "runtime/device/driver_error.h"
#include "runtime/model/instruction_check.h"

namespace neuron::runtime {
namespace {

// Words 0 to 15 of an engine block.
struct EngineBlock {
  uint32_t words[16] = {};

  uint32_t& operator[](uint32_t offset) { return words[offset / 4]; }
  void address(uint32_t offset, uint64_t value) {
    words[offset / 4] = static_cast<uint32_t>(value);
    words[offset / 4 + 1] = static_cast<uint32_t>(value >> 32);
  }
};

constexpr uint32_t kDefaultPrefetch = 32;
constexpr uint32_t kModeNanCheck = 1u << 6;
constexpr uint32_t kModeStochastic = 2u << 2;
constexpr auto kSettleTime = std::chrono::seconds(5);

// STATUS of a core whose five engines all wait and that has no transfer in flight.
constexpr bool has_settled(uint32_t status) {
  constexpr uint32_t kEngineStates = 0xFFFFF, kAllWaiting = 0x22222, kQuiescent = 1u << 31;
  static_assert(NEURON_STATE_WAITING == 2);
  return (status & kQuiescent) != 0 && (status & kEngineStates) == kAllWaiting;
}

// A started engine is idle again only after a reset.
constexpr bool has_idle_engine(uint32_t status) {
  static_assert(NEURON_STATE_IDLE == 0);
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    if (((status >> (4 * engine)) & 0xF) == NEURON_STATE_IDLE) return true;
  }
  return false;
}

// Waits until the programs have reached their waits, so that every launch starts from the same
// state.
Result<void> settle(Core& core) {
  const base::Deadline deadline = base::Deadline::after(kSettleTime);
  const uint64_t status = core.place().window_bar0() + NEURON_CORE_CONTROL + NEURON_CORE_STATUS;
  // bounded: by the deadline.
  while (true) {
    NEURON_TRY(value, core.device().read_register(status));
    if (has_settled(value)) return {};
    if (has_idle_engine(value)) {
      return fail(NRT_HW_ERROR,
                  "the programs of device {} core {} did not start: the core was reset by an "
                  "operator or another process; run it again",
                  core.device().index(), core.number());
    }
    if (deadline.expired()) break;
    const uint32_t* word = &core.completion().sequence;
    const auto soon = base::Deadline::after(std::chrono::milliseconds(1));
    // The result of the wait does not matter: STATUS says whether the programs have arrived.
    core.device().port().wait(core.number(), word, __atomic_load_n(word, __ATOMIC_ACQUIRE),
                              static_cast<uint64_t>(soon.when().time_since_epoch().count()));
  }
  return fail(NRT_TIMEOUT, "the programs of device {} core {} did not start within {} s: {}",
              core.device().index(), core.number(), kSettleTime.count(),
              core.device().port().describe(core.number()));
}

}  // namespace

LoadedModel::~LoadedModel() { retire(); }

void LoadedModel::publish(const neff::Model& model, uint32_t subgraph) {
  // All parts of a model share a number; the models of a process have different ones.
  static std::atomic<uint32_t> loads{0};
  model_id_ =
      first_ == this ? loads.fetch_add(1, std::memory_order_relaxed) + 1 : first_->model_id_;
  nds_model_bytes_t bytes{};
  bytes.info.model_id = model_id_;
  bytes.info.model_node_id = subgraph;
  // The end of a long path says more than its beginning.
  const size_t room = sizeof(bytes.info.name) - 1;
  const size_t cut = name_.size() > room ? name_.size() - room : 0;
  name_.copy(bytes.info.name, room, cut);
  std::memcpy(bytes.info.uuid, model.uuid.data(), sizeof(bytes.info.uuid));
  bytes.info.nc_index = static_cast<uint8_t>(core_.number());
  bytes.info.sg_index = static_cast<uint8_t>(subgraph);
  constexpr uint32_t kDevice = 1;
  const auto add = [&](unsigned slot, const std::unique_ptr<DeviceMemory>& memory) {
    if (memory == nullptr) return;
    nds_mem_usage_info_t& use = bytes.usage.model_mem_usage[kDevice][slot];
    use.total_size += memory->size();
    ++use.chunk_count;
  };
  add(NDS_DMA_MEM_USAGE_SLOT_CODE, code_);
  add(NDS_DMA_MEM_USAGE_SLOT_CONSTANTS, constants_);
  add(NDS_DMA_MEM_USAGE_SLOT_SCRATCHPAD, temporaries_);
  record_ = core_.device().record().add_model(bytes);
}

void LoadedModel::retire() {
  if (retired_) return;
  retired_ = true;
  if (second_) second_->retire();
  // A core that cannot be stopped is reset when it is used next.
  if (core_.current_model == this) (void)core_.halt();
  if (!in_scratchpad_.empty()) core_.scratchpad.leave(*this);
  core_.device().record().remove_model(record_);
  record_ = -1;
  --core_.models;
}

Result<uint64_t> LoadedModel::written_bytes(const ModelPort& output) {
  if (!output.true_size) return output.info.size;
  const LoadedModel& owner = part(output.info.subgraph);
  const uint64_t at = owner.addresses_[output.true_size->counter] - owner.temporaries_->address();
  uint32_t units = 0;
  NEURON_CHECK(owner.temporaries_->read(&units, at, sizeof(units)));
  const uint64_t bytes = units * output.true_size->unit;
  if (bytes <= output.info.size) return bytes;
  return fail(
      NRT_FAILURE,
      "the program of model '{}' says that it has written {} times {} bytes of output '{}', "
      "which has {}: its word '{}' holds no count",
      name_, units, output.true_size->unit, output.info.name, output.info.size,
      owner.names_[output.true_size->counter].name);
}

Result<void> LoadedModel::check_collectives() const {
  if (operations_.empty() || (collectives_ != nullptr && !collectives_->broken())) return {};
  if (collectives_ == nullptr) {
    return fail(
        NRT_EXEC_HW_ERR_COLLECTIVES,
        "the ranks of model '{}' could not meet when it was to be executed first: unload it "
        "on all ranks and load it again",
        name_);
  }
  return fail(
      NRT_EXEC_HW_ERR_COLLECTIVES,
      "the ranks of model '{}' do not agree any more, because an execution failed on device "
      "{} core {} or on the core of another rank: unload it on all ranks and load it again",
      name_, core_.device().index(), core_.number());
}

Result<void> LoadedModel::activate(const DescriptorRings& rings, const ProgramModes& modes) {
  NEURON_CHECK(core_.halt());
  if (moved_) NEURON_CHECK(write_moved());
  NEURON_CHECK(rings.initialize_queues(rings_));
  if (collectives_ != nullptr) NEURON_CHECK(collectives_->start());
  // Here and not once, since a reset of the core forgets it.
  if (modes.seed) {
    const uint64_t seed = core_.place().window_bar0() + NEURON_CORE_CONTROL + NEURON_CORE_SEED;
    NEURON_CHECK(core_.device().write_register(seed, *modes.seed));
  }
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const EngineImage& image = images_[engine];
    EngineBlock block;
    block.address(NEURON_ENG_PROG_LO, image.address);
    block[NEURON_ENG_PROG_COUNT] = image.instructions;
    block[NEURON_ENG_ENTRY] = 0;
    block[NEURON_ENG_PREFETCH] = kDefaultPrefetch;
    block[NEURON_ENG_MODE] = (modes.watch_nan ? kModeNanCheck : 0) |
                             (modes.round_stochastically ? kModeStochastic : 0) |
                             (core_.trace != nullptr ? CoreTrace::kMode : 0);
    block.address(NEURON_ENG_LAUNCH_LO, core_.launch_address());
    block.address(NEURON_ENG_DONE_LO, core_.completion_address());
    block[NEURON_ENG_CONTROL] = NEURON_CMD_START;
    const uint64_t at = core_.window() + NEURON_CORE_ENGINE(engine);
    const int result = ndl_program_engine(core_.device().ndl(), core_.number(), at, block.words, 0,
                                          sizeof(block.words));
    if (result != 0) {
      return driver_error(NRT_FAILURE, result, "starting engine {} of device {} core {}",
                          neff::engine_name(static_cast<uint8_t>(engine)), core_.device().index(),
                          core_.number());
    }
  }
  NEURON_CHECK(settle(core_));
  core_.current_model = this;
  core_.current_binding = nullptr;
  return {};
}

Result<void> LoadedModel::make_ready(const Binding& binding, const ProgramModes& modes) {
  if (core_.current_model != this) NEURON_CHECK(activate(*binding.rings, modes));
  if (second_ == nullptr || second_->core_.current_model == second_.get()) return {};
  return second_->activate(*binding.second_rings, modes);
}

void LoadedModel::move_scratchpad(uint64_t address) {
  for (const auto& [variable, offset] : in_scratchpad_) addresses_[variable] = address + offset;
  for (const AddressPlace& place : address_places_) {
    const uint64_t value = addresses_[place.variable] + place.addend;
    std::memcpy(images_[place.engine].code.data() + place.at, &value, sizeof(value));
  }
  // Rings hold addresses too. None exists before the model's first execution.
  first_->bindings.forget();
  moved_ = !address_places_.empty() || !pointer_places_.empty();
}

// Writes the changes of move_scratchpad() to the device; the core is halted.
Result<void> LoadedModel::write_moved() {
  std::array<bool, NEURON_CORE_ENGINES> changed{};
  for (const AddressPlace& place : address_places_) changed[place.engine] = true;
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const EngineImage& image = images_[engine];
    if (!changed[engine]) continue;
    NEURON_CHECK(
        code_->write(image.code.data(), image.address - code_->address(), image.code.size()));
  }
  for (const PointerPlace& place : pointer_places_) {
    NEURON_CHECK(constants_->write(&addresses_[place.variable], place.at, sizeof(uint64_t)));
  }
  moved_ = false;
  return {};
}

std::string LoadedModel::describe_semaphore(uint32_t number) const {
  for (const neff::Semaphore& semaphore : semaphores_) {
    if (semaphore.number == number) return format("semaphore {} ({})", number, semaphore.name);
  }
  return format("semaphore {}", number);
}

std::string LoadedModel::describe_instruction(uint32_t engine, uint32_t pc) const {
  if (engine >= NEURON_CORE_ENGINES) return format("engine {} pc {}", engine, pc);
  const EngineImage& image = images_[engine];
  if (pc >= image.instructions) {
    return format("{} pc {} (outside its {} instructions)",
                  neff::engine_name(static_cast<uint8_t>(engine)), pc, image.instructions);
  }
  const std::span<const std::byte> bytes =
      std::span(image.code)
          .subspan(size_t{pc} * NEURON_INSTRUCTION_BYTES, NEURON_INSTRUCTION_BYTES);
  if (pc < image.wrapper) {
    return "the runtime's own code, " + runtime::describe_instruction(engine, pc, bytes, {}, {});
  }
  // As the NEFF counts.
  return runtime::describe_instruction(engine, pc - image.wrapper, bytes, image.lines, debug_);
}

}  // namespace neuron::runtime
