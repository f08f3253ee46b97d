// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the NEFF reader: container, JSON, engine binaries, constants.
// The mutator opens what it can, changes one member (a JSON value, a field of a binary, or bytes),
// corrects the checksums and packs again: a plain mutation of a compressed file never reaches the
// readers behind the checksum. What is accepted is turned into rings.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "driver/base/little_endian.h"
#include "runtime/neff/model_reader.h"
#include "runtime/neff/neff_writer.h"
#include "runtime/rings/ring_plan.h"
#include "tests/fuzz/neff_mutator.h"

extern "C" {
// Weak: the program that replays files has no mutator.
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) __attribute__((weak));
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed);
}

namespace {

using namespace neuron;

constexpr neff::Limits kLimits{
    .unpacked_bytes = 4 << 20, .ratio_floor_bytes = 1 << 20, .members = 256};
constexpr neff::ModelLimits kModelLimits{.json_bytes = 1 << 20,
                                         .transfers = 1 << 12,
                                         .transfer_rows = 1 << 14,
                                         .engine_rows = 1 << 16,
                                         .json_values = 1 << 16};

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "accepted, but %s\n", what);
  std::abort();
}

uint64_t highest_byte(const neff::DmaAccess& access) {
  int64_t at = static_cast<int64_t>(access.offset);
  for (int d = 1; d < access.dimensions; ++d) {
    at += std::max<int64_t>(0, access.steps[d] * static_cast<int64_t>(access.sizes[d] - 1));
  }
  return static_cast<uint64_t>(at) + access.run_bytes();
}

// What the loader relies on without checking again.
void walk(const neff::Subgraph& subgraph, const neff::EngineProgram& program) {
  require(program.code.size() % NEURON_INSTRUCTION_BYTES == 0,
          "the code is no whole number of instructions");
  if (!program.code.empty()) {
    require(program.main < program.entries.size(), "there is no main entry");
  }
  for (const neff::ProgramEntry& entry : program.entries) {
    require(entry.pc + uint64_t{entry.length} <= program.instructions(),
            "an entry leaves the code");
  }
  for (const neff::Relocation& relocation : program.relocations) {
    require(relocation.pc < program.instructions(), "a relocation leaves the code");
    require(relocation.field + relocation.width <= NEURON_INSTRUCTION_BYTES,
            "a field leaves its instruction");
    size_t count = SIZE_MAX;
    if (relocation.kind == NEURON_RELOC_VAR_ADDR) count = subgraph.variables.size();
    if (relocation.kind == NEURON_RELOC_QUEUE) count = subgraph.queues.size();
    if (relocation.kind == NEURON_RELOC_DMA_BLOCK) count = program.dma.size();
    if (relocation.kind == NEURON_RELOC_PC) count = program.entries.size();
    require(relocation.target < count, "a relocation has no target");
  }
  for (const neff::DmaTransfer& transfer : program.dma) {
    require(transfer.queue < subgraph.queues.size(), "a transfer has no queue");
    require(!transfer.from.empty(), "a transfer has no source");
    auto check = [&](const neff::DmaAccess& access) {
      require(access.variable < subgraph.variables.size(), "an access has no variable");
      require(highest_byte(access) <= subgraph.variables[access.variable].size,
              "an access leaves its variable");
    };
    check(transfer.to);
    for (const neff::DmaAccess& access : transfer.from) check(access);
    if (transfer.operation == neff::DmaOperation::kCopy) {
      require(transfer.from[0].bytes() == transfer.to.bytes(), "a copy changes its size");
    }
  }
}

void walk(const neff::Model& model) {
  for (const auto* tensors : {&model.inputs, &model.outputs}) {
    for (const neff::TensorInfo& tensor : *tensors) {
      require(tensor.subgraph < model.subgraphs.size(), "a tensor has no subgraph");
      const auto& variables = model.subgraphs[tensor.subgraph].variables;
      require(tensor.variable < variables.size(), "a tensor has no variable");
      require(variables[tensor.variable].size == tensor.size,
              "a tensor has another size than its variable");
    }
  }
  for (const neff::Subgraph& subgraph : model.subgraphs) {
    unsigned sum = 0;
    for (const neff::Variable& variable : subgraph.variables) {
      for (uint8_t byte : variable.contents) sum += byte;  // The sanitizer sees a dangling one.
      if (variable.kind == neff::VariableKind::kFile) {
        require(variable.contents.size() == variable.size,
                "a constant has another size than its variable");
      }
    }
    require(sum != UINT32_MAX, "never");
    for (const neff::EngineProgram& program : subgraph.engines) walk(subgraph, program);
    for (const neff::CollectiveProgram& collective : subgraph.collectives) {
      walk(subgraph, collective.program);
    }
  }
}

// Rings are built or refused; a descriptor never leaves what its transfer may touch.
void walk_rings(const neff::Subgraph& subgraph) {
  const auto plan = runtime::RingPlan::build(subgraph);
  if (!plan) {
    require(!plan.error().sentence.empty(), "rings are refused silently");
    return;
  }
  require(plan->queues().size() <= runtime::kMaxQueues, "there are more rings than queues");
  for (const runtime::QueuePlan& queue : plan->queues()) {
    for (uint32_t e = 0; e < queue.engines; ++e) {
      const runtime::RingPair& ring = queue.rings[e];
      require(ring.m2s.size() * ring.m2s_copies <= ring.m2s_length &&
                  ring.s2m.size() * ring.s2m_copies <= ring.s2m_length,
              "a ring holds more than it has room for");
      for (const auto* half : {&ring.m2s, &ring.s2m}) {
        for (const runtime::RingDescriptor& d : *half) {
          if (d.base >= subgraph.variables.size()) continue;
          require(d.length != 0 && d.offset + d.length <= subgraph.variables[d.base].size,
                  "a descriptor leaves its variable");
        }
      }
    }
  }
}

// The file with one member changed; empty if it cannot be opened or packed.
std::vector<uint8_t> change_member(neff::Bytes file, size_t max_size, std::minstd_rand& random) {
  const auto container = neff::Container::open(file, {.limits = kLimits});
  if (!container || container->members().empty()) return {};
  tools::NeffMembers members;
  for (const neff::Member& member : container->members()) {
    members[member.name].assign(member.bytes.begin(), member.bytes.end());
  }
  auto chosen = std::next(members.begin(), static_cast<ptrdiff_t>(random() % members.size()));
  std::vector<uint8_t>& bytes = chosen->second;
  const bool json = chosen->first.ends_with(".json"), binary = chosen->first.ends_with(".bin");
  // Three of four times a change that knows the structure, else one of bytes.
  const bool changed = random() % 4 != 0 && ((json && fuzz::JsonMutator(random).change(bytes)) ||
                                             (binary && fuzz::change_binary(bytes, random)));
  if (!changed) {
    const size_t size = bytes.size();
    bytes.resize(size + 64);
    bytes.resize(LLVMFuzzerMutate(bytes.data(), size, bytes.size()));
    if (binary && random() % 16) fuzz::fix_checksums(bytes);
  }
  const neff::Header& header = container->header();
  tools::NeffOptions options{.name = header.name.substr(0, 255),
                             .build_version = header.build_version.substr(0, 127),
                             .version_major = header.version_major,
                             .version_minor = header.version_minor,
                             .feature_bits = header.feature_bits,
                             .lnc_size = header.lnc_size,
                             .cores = header.num_tpb,
                             .compress = random() % 2 == 0,
                             .header_version = header.pkg_version};
  const auto packed = tools::write_neff(members, options);
  if (!packed || packed->size() > max_size) return {};
  return *packed;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const neff::Bytes file(data, size);
  const auto container = neff::Container::open(file, {.limits = kLimits});
  if (!container) {
    require(container.error().status != NRT_SUCCESS && !container.error().sentence.empty(),
            "refused silently");
    return 0;
  }
  for (const neff::Member& member : container->members()) {
    const std::string path = "/" + member.name + "/";
    require(path.find("/../") == std::string::npos && path.find("//") == std::string::npos,
            "a name leaves the directory");
  }
  const auto model = neff::load_model(*container, {}, kModelLimits);
  if (model) {
    walk(*model);
    for (const neff::Subgraph& subgraph : model->subgraphs) walk_rings(subgraph);
  } else {
    require(!model.error().sentence.empty(), "refused silently");
    require(model.error().sentence.find('\n') == std::string::npos,
            "the sentence has more than one line");
  }
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::minstd_rand random(seed + 1);
  if (random() % 8) {
    const auto changed = change_member({data, size}, max_size, random);
    if (!changed.empty()) {
      std::memcpy(data, changed.data(), changed.size());
      return changed.size();
    }
  }
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size >= NEFF_HEADER_BYTES && random() % 4) {
    base::store_little<uint64_t>(data + NEFF_OFF_DATA_SIZE, size - NEFF_HEADER_BYTES);
  }
  return size;
}
