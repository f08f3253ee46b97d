// SPDX-License-Identifier: Apache-2.0
//
// A model on a core: its memory, programs, ring plan, and the bindings it was executed with.
// Callers: loader (creates), executor (runs, holding the core's turn), C interface (queries).
// Thread-safe: members set by load() are constant; the rest belongs to the holder of the core's
// turn.
// Owns all device memory of the model; the destructor stops the core if it still runs this.
// Fails: load() with the statuses of nrt_load, with member, engine, pc and rule.
#ifndef RUNTIME_MODEL_LOADED_MODEL_H
#define RUNTIME_MODEL_LOADED_MODEL_H

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/core.h"
#include "runtime/device/scratchpad.h"
#include "runtime/model/load_progress.h"
#include "runtime/model/model_collectives.h"
#include "runtime/model/tile_writers.h"
#include "runtime/neff/model.h"
#include "runtime/observe/execution_report.h"
#include "runtime/rings/binding_cache.h"
#include "runtime/rings/ring_plan.h"

namespace neuron::runtime {

// The program of one engine as it lies in HBM: wrapper, then the model's code.
struct EngineImage {
  uint64_t address = 0;
  uint32_t wrapper = 0;         // instructions, those of veneers included
  uint32_t instructions = 0;    // wrapper included
  std::vector<std::byte> code;  // for reports
  std::vector<neff::SourceLine> lines;
};

// An input or output: which variable it binds.
struct ModelPort {
  neff::TensorInfo info;
  bool output = false;
  std::optional<neff::TrueSize> true_size = {};
};

// What the environment asks of the engines that run a program.
struct ProgramModes {
  bool watch_nan = false;
  bool round_stochastically = false;  // where an instruction does not say how it rounds
  std::optional<uint32_t> seed = {};  // of the core
};

class FileImage;

class LoadedModel final : private ScratchpadUser {
 public:
  // A file, read and checked; this needs no core. Constants point into `file`, or into the
  // container.
  struct Source {
    neff::Container container;
    neff::Model model;
    // Where `file` came from, if large constants are still there; outlives the loading.
    const FileImage* image = nullptr;
    LoadProgress::Listener progress;  // runs in load(), may be null
  };
  // Settings of the environment for reading files.
  struct ReadOptions {
    uint32_t logical_cores = 1;         // physical cores of a virtual one
    bool allow_older_programs = false;  // of an older generation than the core's
    bool validate_hash = false;
  };
  // Reads a file for a core's chip. The caller does not hold the core's turn: unpacking takes long,
  // and executions go on meanwhile.
  static Result<Source> read(const ReadOptions& options, const Core& core, neff::Bytes file);
  static Result<std::unique_ptr<LoadedModel>> load(Core& core, const Source& source);
  static Result<std::unique_ptr<LoadedModel>> load(Core& core, const neff::Model& model,
                                                   const FileImage* image = nullptr,
                                                   LoadProgress::Listener listener = nullptr);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  Core& core() const { return core_; }
  // The part on the second physical core of a virtual one, launched together with this; or null. It
  // has no ports and no bindings: those of both are here.
  LoadedModel* second() const { return second_.get(); }
  // The part that has the variables of a subgraph.
  LoadedModel& part(uint32_t subgraph) { return subgraph == 0 ? *this : *second_; }
  const std::string& name() const { return name_; }
  // Inputs in file order, then outputs.
  const std::vector<ModelPort>& ports() const { return ports_; }
  const RingPlan& rings() const { return rings_; }
  // Addresses by the indices of the ring plan's packets; inputs and outputs are 0.
  const std::vector<uint64_t>& addresses() const { return addresses_; }
  uint64_t variable_size(uint32_t variable) const { return sizes_[variable]; }
  // For profiles: names, kinds, and places in the core of those that lie there.
  struct VariableName {
    std::string name;
    neff::VariableKind kind = neff::VariableKind::kTmpBuf;
    uint64_t core_offset = 0;
  };
  const std::vector<VariableName>& variable_names() const { return names_; }
  // What the program says that its last execution has written of an output; of one that does not
  // say, all of it. The caller holds the core's turn. Fails where that is more than there is.
  Result<uint64_t> written_bytes(const ModelPort& output);
  uint64_t temporary_bytes() const { return temporaries_ == nullptr ? 0 : temporaries_->size(); }
  const std::vector<neff::Semaphore>& semaphores() const { return semaphores_; }
  // For profiles.
  const neff::DebugInfo& debug() const { return debug_; }
  const std::array<uint8_t, 16>& uuid() const { return uuid_; }
  uint64_t constant_bytes() const { return constants_ == nullptr ? 0 : constants_->size(); }
  const EngineImage& image(uint32_t engine) const { return images_[engine]; }

  // Where its program reads the addresses of inputs and outputs.
  const std::vector<PortPointer>& port_pointers() const { return port_pointers_; }
  // Its transfers into SBUF and PSUM.
  const TileWriters& tile_writers() const { return tile_writers_; }
  // "semaphore 20 (a_full)"
  std::string describe_semaphore(uint32_t number) const;

  // "PE pc 12 (matmul.py:40): matmul ...", for reports; pc counts from the start of the image.
  std::string describe_instruction(uint32_t engine, uint32_t pc) const;

  // Collectives of its program; they need to be connected before the first execution.
  const std::vector<neff::Collective>& operations() const { return operations_; }
  ModelCollectives* collectives() const { return collectives_.get(); }
  void take_collectives(std::unique_ptr<ModelCollectives> collectives) {
    collectives_ = std::move(collectives);
    awaits_ranks_.store(false, std::memory_order_release);
  }
  // Which of how many ranks executes this, and its place among what was loaded.
  struct Rank {
    uint32_t number = 0;
    uint32_t count = 0;
    uint64_t order = 0;
  };
  // Its ranks meet later, at the latest before its first execution. To be called before another
  // thread sees the model.
  void await_ranks(const Rank& rank) {
    rank_ = rank;
    awaits_ranks_.store(true, std::memory_order_relaxed);
  }
  // They could not meet, and will not.
  void give_up_ranks() { awaits_ranks_.store(false, std::memory_order_release); }
  // Any thread. Acquire: whoever finds that they have met sees collectives().
  bool awaits_ranks() const { return awaits_ranks_.load(std::memory_order_acquire); }
  const Rank& rank() const { return rank_; }
  // Fails if its collectives can no longer be executed; no reset is needed then.
  Result<void> check_collectives() const;

  // Puts the programs of all parts onto their cores and starts them, if the cores run others; they
  // wait for the first launch.
  Result<void> make_ready(const Binding& binding, const ProgramModes& modes);
  // Takes the model off its core for good.
  void retire();
  bool retired() const { return retired_; }

  BindingCache bindings;
  ExecutionReport report;
  const LoadedModel* other = nullptr;  // the part on the other physical core, of either part

 private:
  // 8 bytes at `at` of an engine's image are a variable's address + addend.
  struct AddressPlace {
    uint32_t engine = 0;
    uint64_t at = 0;
    uint32_t variable = 0;
    uint64_t addend = 0;
  };
  // 8 bytes at `at` of the constants are a variable's address.
  struct PointerPlace {
    uint64_t at = 0;
    uint32_t variable = 0;
  };

  explicit LoadedModel(Core& core) : core_(core) { ++core_.models; }
  Result<void> activate(const DescriptorRings& rings, const ProgramModes& modes);
  // Drops all bindings; the next make_ready() tells the device.
  void move_scratchpad(uint64_t address) override;
  Result<void> write_moved();
  // Publishes the model for operator tools.
  void publish(const neff::Model& model, uint32_t subgraph);
  friend class Loader;

  Core& core_;
  std::unique_ptr<LoadedModel> second_;
  LoadedModel* first_ = this;  // the one that has the bindings
  std::string name_;
  std::vector<ModelPort> ports_;
  RingPlan rings_;
  std::vector<uint64_t> addresses_;
  std::vector<uint64_t> sizes_;      // of the variables
  std::vector<VariableName> names_;  // likewise
  std::vector<neff::Semaphore> semaphores_;
  std::vector<neff::Collective> operations_;
  Rank rank_;
  std::atomic<bool> awaits_ranks_{false};
  std::array<EngineImage, NEURON_CORE_ENGINES> images_;
  std::unique_ptr<DeviceMemory> code_;
  std::unique_ptr<DeviceMemory> constants_;
  std::unique_ptr<DeviceMemory> ring_base_;  // holds the address of the rings, or absent
  std::unique_ptr<DeviceMemory> temporaries_;
  // Destroyed before the memory above: a proxy moves messages from and to the temporaries until
  // then.
  std::unique_ptr<ModelCollectives> collectives_;
  std::vector<std::pair<uint32_t, uint64_t>> in_scratchpad_;  // variable, offset
  // Places of the addresses of variables in the scratchpad.
  std::vector<AddressPlace> address_places_;
  std::vector<PointerPlace> pointer_places_;
  std::vector<PortPointer> port_pointers_;
  bool moved_ = false;  // the device has not been told
  neff::DebugInfo debug_;
  std::array<uint8_t, 16> uuid_{};
  bool retired_ = false;
  uint32_t model_id_ = 0;
  int record_ = -1;  // its slot of the device's ProcessRecord
  TileWriters tile_writers_;
};

// Whether an engine has instructions of the file.
inline bool has_code(const LoadedModel& model) {
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const EngineImage& image = model.image(engine);
    if (image.instructions > image.wrapper) return true;
  }
  return false;
}

}  // namespace neuron::runtime

#endif
