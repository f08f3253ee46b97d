// SPDX-License-Identifier: Apache-2.0
//
// From the bytes of a NEFF to a LoadedModel: memory for its variables, rings, programs.
#include <algorithm>
#include <cstring>

#include "driver/compression/stream.h"
#include "runtime/base/log.h"
#include "runtime/model/file_image.h"
#include "runtime/model/instruction_check.h"
#include "runtime/model/loaded_model.h"
#include "runtime/model/relocation.h"
#include "runtime/model/stream_use.h"
#include "runtime/model/veneers.h"
#include "runtime/model/wrapper.h"
#include "runtime/neff/model_reader.h"

namespace neuron::runtime {
namespace {

constexpr uint64_t kVariableAlignment = 64;
constexpr uint64_t kLargestAlignment = 1ull << 30;

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

bool is_port(neff::VariableKind kind) {
  return kind == neff::VariableKind::kInput || kind == neff::VariableKind::kOutput;
}

// Variables that share one allocation.
struct Block {
  uint64_t size = 0;
  uint64_t alignment = 4096;
  std::vector<std::pair<uint32_t, uint64_t>> members;  // variable, offset

  void add(uint32_t variable, const neff::Variable& v) {
    const uint64_t alignment_of = std::max(v.alignment, kVariableAlignment);
    alignment = std::max(alignment, alignment_of);
    size = align_up(size, alignment_of);
    members.emplace_back(variable, size);
    size += v.size;
  }
};

}  // namespace

class Loader {
 public:
  // `first`: what the other core of a virtual core of two has loaded, for the second one.
  Loader(Core& core, const neff::Model& model, uint32_t subgraph, const FileImage* image,
         LoadProgress& progress, const LoadedModel* first = nullptr)
      : core_(core),
        first_(first),
        image_(image),
        progress_(progress),
        model_(model),
        subgraph_(subgraph),
        graph_(model.subgraphs[subgraph]),
        peer_(model.lnc == 2 && model.subgraphs.size() == 2 ? &model.subgraphs[1 - subgraph]
                                                            : nullptr),
        result_(new LoadedModel(core)) {}

  Result<std::unique_ptr<LoadedModel>> run() {
    result_->name_ = model_.name;
    result_->semaphores_ = graph_.semaphores;
    result_->operations_ = graph_.operations;
    for (const neff::Variable& variable : graph_.variables) {
      result_->sizes_.push_back(variable.size);
      result_->names_.push_back({variable.name, variable.kind, variable.core_offset});
    }
    NEURON_TRY(streams, streams_of(graph_.operations, core_.place()));
    streams_ = std::move(streams);
    result_->debug_ = graph_.debug;
    result_->uuid_ = model_.uuid;
    if (subgraph_ == 0) list_ports();
    NEURON_CHECK(place_variables());
    NEURON_TRY(rings, RingPlan::build(graph_));
    result_->rings_ = std::move(rings);
    result_->tile_writers_ = TileWriters(graph_, result_->rings_);
    NEURON_CHECK(check_transfers());
    NEURON_CHECK(place_ring_base());
    result_->addresses_.push_back(core_.one().address());
    result_->addresses_.push_back(core_.semaphore_inc(0));
    result_->addresses_.push_back(core_.window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_EVENT);
    if (peer_ != nullptr) {
      result_->addresses_.push_back(core_.place().other().window() + NEURON_CORE_SEMAPHORES +
                                    NEURON_SEM_BLOCK_INC);
    }
    NEURON_CHECK(build_programs());
    result_->bindings.staging.resize(result_->ports_.size());
    return std::move(result_);
  }

 private:
  // Lists the ports of all subgraphs.
  void list_ports() {
    for (const auto* list : {&model_.inputs, &model_.outputs}) {
      for (const neff::TensorInfo& info : *list) {
        result_->ports_.push_back({info, list == &model_.outputs});
        // Of a tensor without a variable place_variables() says what is wrong.
        if (info.subgraph >= model_.subgraphs.size()) continue;
        const std::vector<neff::Variable>& variables = model_.subgraphs[info.subgraph].variables;
        if (info.variable >= variables.size()) continue;
        result_->ports_.back().true_size = variables[info.variable].true_size;
      }
    }
  }

  Result<void> place_variables() {
    Block constants, temporaries;
    uint64_t scratch = 0;
    const std::vector<neff::Variable>& variables = graph_.variables;
    result_->addresses_.assign(variables.size(), 0);
    for (uint32_t i = 0; i < variables.size(); ++i) {
      const neff::Variable& v = variables[i];
      if (v.alignment > kLargestAlignment) {
        return fail(NRT_INVALID, "variable '{}' asks for an alignment of {} bytes; the most is {}",
                    v.name, v.alignment, kLargestAlignment);
      }
      switch (v.kind) {
        case neff::VariableKind::kFile:
        case neff::VariableKind::kPointer:
        case neff::VariableKind::kDgeTable:
          constants.add(i, v);
          break;
        case neff::VariableKind::kTmpBuf:
          if (v.shared && first_ != nullptr) {
            result_->addresses_[i] = address_of_shared(v.name);
          } else {
            temporaries.add(i, v);
          }
          break;
        case neff::VariableKind::kVirtual:
          scratch = std::max(scratch, v.backing_offset + v.size);
          result_->in_scratchpad_.emplace_back(i, v.backing_offset);
          break;
        case neff::VariableKind::kStateBuffer:
          result_->addresses_[i] = core_.window() + v.core_offset;
          break;
        default:
          break;
      }
    }
    if (scratch != 0) NEURON_CHECK(core_.scratchpad.join(core_, *result_, scratch));
    NEURON_CHECK(allocate(temporaries, NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE,
                          "temporary variables", result_->temporaries_));
    NEURON_CHECK(allocate(constants, NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE, "constants",
                          result_->constants_));
    return upload_constants(constants);
  }

  // Where the first core has a variable of both. The file's reader has found it there.
  uint64_t address_of_shared(const std::string& name) const {
    const auto& names = first_->names_;
    const auto found = std::find_if(names.begin(), names.end(),
                                    [&](const auto& variable) { return variable.name == name; });
    return first_->addresses_[static_cast<size_t>(found - names.begin())];
  }

  Result<void> allocate(const Block& block, mem_alloc_category_t category, const char* purpose,
                        std::unique_ptr<DeviceMemory>& memory) {
    if (block.members.empty()) return {};
    NEURON_TRY(allocated,
               DeviceMemory::allocate(core_.device(), {.size = std::max<uint64_t>(block.size, 64),
                                                       .alignment = block.alignment,
                                                       .core = core_.number(),
                                                       .category = category,
                                                       .purpose = purpose}));
    memory = std::move(allocated);
    for (const auto& [variable, offset] : block.members) {
      result_->addresses_[variable] = memory->address() + offset;
    }
    return {};
  }

  Result<void> upload_constants(const Block& block) {
    for (const auto& [variable, place] : block.members) {
      const neff::Variable& v = graph_.variables[variable];
      const uint64_t offset = place;
      if (v.kind == neff::VariableKind::kFile && image_ != nullptr && image_->in_hole(v.contents)) {
        NEURON_CHECK(
            image_->stream(v.contents, [&](const std::byte* piece, uint64_t at, uint64_t length) {
              return write_constant(piece, offset + at, length);
            }));
        continue;
      }
      if (v.kind == neff::VariableKind::kFile && v.compressed) {
        NEURON_CHECK(write_streams(v, offset));
        continue;
      }
      if (v.kind == neff::VariableKind::kFile) {
        for (uint64_t at = 0; at < v.contents.size(); at += LoadProgress::kStep) {
          const uint64_t length = std::min(v.contents.size() - at, LoadProgress::kStep);
          NEURON_CHECK(write_constant(v.contents.data() + at, offset + at, length));
        }
        continue;
      }
      std::vector<uint64_t> table;
      std::vector<uint32_t> targets = v.list;
      if (v.kind == neff::VariableKind::kPointer) targets = {v.referenced};
      for (const uint32_t target : targets) {
        if (is_port(graph_.variables[target].kind)) {
          // Written when the tensors are bound.
          const uint64_t at = result_->addresses_[variable] + table.size() * sizeof(table[0]);
          result_->port_pointers_.push_back({at, target});
        }
        if (graph_.variables[target].kind == neff::VariableKind::kVirtual) {
          result_->pointer_places_.push_back({offset + table.size() * sizeof(table[0]), target});
        }
        table.push_back(result_->addresses_[target]);
      }
      const uint64_t bytes = table.size() * sizeof(table[0]);
      if (bytes > v.size) {
        return fail(NRT_INVALID, "variable '{}' has {} bytes; its {} addresses need {}", v.name,
                    v.size, table.size(), bytes);
      }
      NEURON_CHECK(result_->constants_->write(table.data(), offset, bytes));
    }
    return {};
  }

  // One stream after the other, so that no more than one content is in memory.
  Result<void> write_streams(const neff::Variable& v, uint64_t offset) {
    std::vector<uint8_t> content;
    for (uint64_t at = 0, done = 0; at < v.contents.size();) {
      const neff::Bytes stream = v.contents.subspan(at);
      compression::StreamHeader header;
      auto malformed = compression::read_header(stream, header);
      if (!malformed) {
        content.resize(header.content_bytes);
        malformed = compression::decompress(stream, content);
      }
      if (malformed) {
        return fail(NRT_INVALID,
                    "constant '{}', {}, byte {} of its streams: {}; the file is damaged", v.name,
                    v.file_name, at + malformed.at, malformed.rule);
      }
      NEURON_CHECK(write_constant(content.data(), offset + done, content.size()));
      at += header.stream_bytes();
      done += content.size();
    }
    return {};
  }

  Result<void> write_constant(const void* from, uint64_t offset, uint64_t bytes) {
    NEURON_CHECK(result_->constants_->write(from, offset, bytes));
    return progress_.add(bytes);
  }

  // Every input or output variable that a transfer moves, or whose address the program reads, must
  // have a tensor bound to it.
  Result<void> check_transfers() {
    std::vector<bool> bound(graph_.variables.size());
    for (const auto* list : {&model_.inputs, &model_.outputs}) {
      for (const neff::TensorInfo& info : *list) {
        if (info.subgraph == subgraph_) bound[info.variable] = true;
      }
    }
    for (const neff::EngineProgram& program : graph_.engines) {
      for (const neff::DmaTransfer& transfer : program.dma) {
        NEURON_CHECK(check_bound(bound, transfer.to));
        for (const neff::DmaAccess& from : transfer.from) NEURON_CHECK(check_bound(bound, from));
      }
    }
    const std::vector<PortPointer>& pointers = result_->port_pointers_;
    if (pointers.size() > kMaxPortPointers) {
      return fail(NRT_INVALID,
                  "the program reads the addresses of inputs and outputs at {} places; the most is "
                  "{}",
                  pointers.size(), kMaxPortPointers);
    }
    for (const PortPointer& pointer : pointers) {
      if (bound[pointer.variable]) continue;
      return fail(NRT_INVALID,
                  "variable '{}' is an input or output whose address the program reads, but "
                  "neff.json lists no tensor for it",
                  graph_.variables[pointer.variable].name);
    }
    return {};
  }

  Result<void> check_bound(const std::vector<bool>& bound, const neff::DmaAccess& access) const {
    const neff::Variable& variable = graph_.variables[access.variable];
    if (bound[access.variable] || !is_port(variable.kind)) return {};
    return fail(
        NRT_INVALID,
        "variable '{}' is moved as an input or output, but neff.json lists no tensor for it",
        variable.name);
  }

  // Where the engines read the address of the rings, which changes with the tensors.
  Result<void> place_ring_base() {
    if (!result_->rings_.shares()) return {};
    constexpr uint64_t kBytes = 64;
    NEURON_TRY(memory, DeviceMemory::allocate(core_.device(),
                                              {.size = kBytes,
                                               .alignment = kBytes,
                                               .core = core_.number(),
                                               .category = NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE,
                                               .purpose = "the address of the DMA rings"}));
    result_->ring_base_ = std::move(memory);
    result_->rings_.put_base_at(result_->ring_base_->address());
    return {};
  }

  Result<void> build_programs() {
    SynchronizationUse used;
    for (const neff::EngineProgram& program : graph_.engines) {
      for (const neff::DmaTransfer& transfer : program.dma) {
        if (transfer.semaphore) used.semaphores.set(*transfer.semaphore);
        if (transfer.event) used.events.set(*transfer.event);
      }
    }
    for (const neff::QueueSet& queue : graph_.queues) {
      if (queue.semaphore) used.semaphores.set(*queue.semaphore);
      for (const uint8_t number : queue.semaphore_set) used.semaphores.set(number);
    }
    for (const neff::Semaphore& semaphore : graph_.semaphores) {
      used.semaphores.set(semaphore.number);
    }
    for (const neff::Collective& collective : graph_.operations) {
      if (collective.semaphore) used.semaphores.set(*collective.semaphore);
    }
    std::array<std::vector<std::byte>, NEURON_CORE_ENGINES> codes;
    for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      const neff::EngineProgram& program = graph_.engines[engine];
      codes[engine].resize(program.code.size());
      if (program.code.empty()) continue;
      std::memcpy(codes[engine].data(), program.code.data(), program.code.size());
      NEURON_CHECK(relocate(program,
                            {graph_, result_->rings_, result_->addresses_, core_.place(), peer_},
                            codes[engine]));
      NEURON_CHECK(check_program(codes[engine], engine, core_.place().chip->generation,
                                 program.lines, graph_.debug, used));
    }
    std::vector<uint8_t> semaphores, events;
    for (uint32_t s = NEURON_SEM_PROGRAM_FIRST; s <= NEURON_SEM_PROGRAM_LAST; ++s) {
      if (used.semaphores[s]) semaphores.push_back(static_cast<uint8_t>(s));
    }
    for (uint32_t e = 0; e < NEURON_EVENTS; ++e) {
      if (used.events[e]) events.push_back(static_cast<uint8_t>(e));
    }
    uint64_t total = 0;
    for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      NEURON_CHECK(assemble(engine, codes[engine], semaphores, events));
      result_->images_[engine].address = total;
      total += result_->images_[engine].code.size();
    }
    NEURON_TRY(memory,
               DeviceMemory::allocate(core_.device(), {.size = total,
                                                       .alignment = 4096,
                                                       .core = core_.number(),
                                                       .category = NEURON_MEMALLOC_TYPE_CODE_DEVICE,
                                                       .purpose = "programs"}));
    result_->code_ = std::move(memory);
    for (EngineImage& image : result_->images_) {
      NEURON_CHECK(result_->code_->write(image.code.data(), image.address, image.code.size()));
      image.address += result_->code_->address();
    }
    return {};
  }

  Result<void> assemble(uint32_t engine, std::vector<std::byte>& code,
                        const std::vector<uint8_t>& semaphores,
                        const std::vector<uint8_t>& events) {
    const neff::EngineProgram& program = graph_.engines[engine];
    const std::vector<SharingFunction>& sharing = result_->rings_.sharing(engine);
    Veneers veneers;
    std::optional<uint8_t> ring_base;
    if (!sharing.empty()) {
      NEURON_TRY(registers, find_unused_registers(code, engine));
      veneers = make_veneers(engine, sharing, core_.place(), registers);
      call_veneers(sharing, veneers, code);
      ring_base = registers.base;
    }
    WrapperRequest request{.engine = static_cast<uint8_t>(engine),
                           .main = std::nullopt,
                           .ring_base = ring_base,
                           .core = core_.place(),
                           .launch_record = core_.launch_address(),
                           .semaphores = semaphores,
                           .events = events,
                           .rings = &result_->rings_,
                           .reads_addresses = !result_->port_pointers_.empty(),
                           .streams = streams_};
    if (!code.empty()) {
      request.main = program.entries[program.main].pc + static_cast<uint32_t>(veneers.code.size());
    }
    std::vector<isa::Instruction> wrapper = make_wrapper(request);
    wrapper.insert(wrapper.end(), veneers.code.begin(), veneers.code.end());
    EngineImage& image = result_->images_[engine];
    image.wrapper = static_cast<uint32_t>(wrapper.size());
    image.lines = program.lines;
    image.code.resize(wrapper.size() * NEURON_INSTRUCTION_BYTES);
    for (size_t i = 0; i < wrapper.size(); ++i) {
      isa::encode(wrapper[i], std::span(image.code)
                                  .subspan(i * NEURON_INSTRUCTION_BYTES)
                                  .first<NEURON_INSTRUCTION_BYTES>());
    }
    for (const neff::Relocation& r : program.relocations) {
      if (r.kind != NEURON_RELOC_VAR_ADDR ||
          graph_.variables[r.target].kind != neff::VariableKind::kVirtual) {
        continue;
      }
      const uint64_t at = (uint64_t{image.wrapper} + r.pc) * NEURON_INSTRUCTION_BYTES + r.field;
      result_->address_places_.push_back({engine, at, r.target, static_cast<uint64_t>(r.addend)});
    }
    image.code.insert(image.code.end(), code.begin(), code.end());
    image.instructions = static_cast<uint32_t>(image.code.size() / NEURON_INSTRUCTION_BYTES);
    return {};
  }

  Core& core_;
  const LoadedModel* const first_;  // null: this is the first
  const FileImage* const image_;
  LoadProgress& progress_;
  const neff::Model& model_;
  const uint32_t subgraph_;
  const neff::Subgraph& graph_;
  const neff::Subgraph* const peer_;  // of the other core of a virtual core of two
  std::unique_ptr<LoadedModel> result_;
  std::vector<StreamUse> streams_;
};

Result<LoadedModel::Source> LoadedModel::read(const ReadOptions& options, const Core& core,
                                              neff::Bytes file) {
  if (!core.device().chip().has_programs) {
    return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                "device {} is an Inferentia1, whose instruction set is not public: no program can "
                "be made or loaded for it here; use another instance type, such as "
                "NEURON_EMULATOR=trn1.2xlarge",
                core.device().index());
  }
  const neff::Target target = {.generation = core.device().generation(),
                               .lnc = options.logical_cores,
                               .allow_older = options.allow_older_programs};
  neff::OpenOptions open;
  open.validate_hash = options.validate_hash;
  NEURON_TRY(container, neff::Container::open(file, open));
  NEURON_TRY(model, neff::load_model(container, target));
  for (const std::string& note : model.notes) {
    log_info(LogComponent::kNmgr, "NEFF {}: {}", model.name, note);
  }
  if (model.subgraphs.size() != std::max(1u, target.lnc)) {
    return fail(NRT_LOAD_NOT_ENOUGH_NC,
                "NEFF '{}' has {} subgraphs, each for a physical core of one virtual core; the "
                "virtual cores of this process have {}",
                model.name, model.subgraphs.size(), std::max(1u, target.lnc));
  }
  for (const neff::Subgraph& subgraph : model.subgraphs) {
    if (!subgraph.collectives.empty()) {
      return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                  "NEFF '{}' has programs of its own for collective cores (\"cc\" of {}/def.json); "
                  "name its operations in \"collectives\", from which the runtime makes them",
                  model.name, subgraph.name);
    }
    if (&subgraph != &model.subgraphs[0] && !subgraph.operations.empty()) {
      return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                  "NEFF '{}' has collectives in {}; those of a virtual core of two belong into {}",
                  model.name, subgraph.name, model.subgraphs[0].name);
    }
  }
  return Source{std::move(container), std::move(model), nullptr, nullptr};
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(Core& core, const Source& source) {
  return load(core, source.model, source.image, source.progress);
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(Core& core, const neff::Model& model,
                                                       const FileImage* image,
                                                       LoadProgress::Listener listener) {
  LoadProgress progress(std::move(listener), model);
  auto loaded = Loader(core, model, 0, image, progress).run();
  if (!loaded) return loaded.error().with("NEFF '{}'", model.name);
  if (model.subgraphs.size() > 1) {
    auto second = Loader(*core.peer, model, 1, image, progress, loaded->get()).run();
    if (!second) {
      return second.error().with("NEFF '{}', {}", model.name, model.subgraphs[1].name);
    }
    (*second)->first_ = loaded->get();
    (*second)->other = loaded->get();
    (*loaded)->other = second->get();
    (*loaded)->second_ = std::move(*second);
  }
  (*loaded)->publish(model, 0);
  if ((*loaded)->second_) (*loaded)->second_->publish(model, 1);
  core.counters.add(NDS_NC_COUNTER_MODEL_LOAD_COUNT, 1);
  return loaded;
}

}  // namespace neuron::runtime
