// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/programs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "driver/isa/instruction.h"
#include "hw/control.h"
#include "hw/udma.h"
#include "runtime/collectives/plan_agreement.h"
#include "runtime/collectives/program_facts.h"
#include "runtime/collectives/replica_group.h"
#include "runtime/device/core_trace.h"
#include "runtime/device/core_turn.h"
#include "runtime/device/driver_error.h"

namespace neuron::runtime {
namespace {

constexpr uint32_t kCoreDmaEngines = CCOM_DEVICE_DMA_ENGINES;

struct RingBytes {
  uint64_t at = 0;
  uint32_t slots = 0;
};

uint32_t slots_of(uint32_t descriptors) {
  const uint32_t least = std::max<uint32_t>(descriptors, NEURON_UDMA_RING_MIN);
  return (least + NEURON_UDMA_RING_MULTIPLE - 1) / NEURON_UDMA_RING_MULTIPLE *
         NEURON_UDMA_RING_MULTIPLE;
}

uint64_t bytes_of_slots(uint32_t slots) {
  return (uint64_t{slots} * NEURON_DESC_BYTES + NEURON_UDMA_RING_ALIGN - 1) /
         NEURON_UDMA_RING_ALIGN * NEURON_UDMA_RING_ALIGN;
}

std::string describe_operation(const neff::Collective& c) {
  std::string text = neff::collective_name(c.operation);
  if (c.operation == CCOM_BARRIER) return text;
  text += c.operation > CCOM_BARRIER
              ? format(" of {}", neff::collective_type_name(c.type))
              : format(" of {} {}", c.count, neff::collective_type_name(c.type));
  if (c.operation == CCOM_ALL_REDUCE || c.operation == CCOM_REDUCE_SCATTER ||
      c.operation == CCOM_REDUCE || c.operation == CCOM_REDUCE_SCATTER_V) {
    text += format(" ({})", neff::collective_reduction_name(c.reduction));
  }
  return text;
}

// A hash of counts and displacements.
uint64_t hash_of_lengths(const neff::Collective& c) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const auto* list : {&c.counts, &c.displacements, &c.receive_displacements}) {
    for (const uint64_t value : *list) hash = (hash ^ value) * 0x100000001b3u;
  }
  return hash;
}

ccom_device_layout_t layout_of(const neff::RowsOfSbuf& rows) {
  if (!rows.present()) return {};
  return {rows.row_bytes, rows.partitions, NEURON_SBUF_PARTITION_STRIDE};
}

std::string call_error(const char* text) { return text[0] == 0 ? "libccom gave no reason" : text; }

}  // namespace

// What a rank tells the others about one collective.
struct CollectivePrograms::Announcement {
  uint64_t input = 0;
  uint64_t output = 0;
  uint64_t scratch = 0;
  uint64_t count = 0;  // operations with variable lengths: a hash of the lengths
  uint32_t operation = 0;
  uint32_t type = 0;
  uint32_t reduction = 0;
  uint32_t root = 0;
  uint32_t stream = 0;
  uint32_t engines = 0;
  // Its core is in CollectivesState::kLost, or its credits have been counted by other numbers.
  uint32_t lost = 0;
  // For buffers in SBUF: bytes of a row, partitions.
  std::array<uint32_t, 2> input_rows{}, output_rows{};
  uint32_t reserved = 0;

  std::string describe() const {
    neff::Collective c;
    c.operation = static_cast<ccom_operation_t>(operation);
    c.type = static_cast<ccom_type_t>(type);
    c.reduction = static_cast<ccom_reduction_t>(reduction);
    c.count = count;
    std::string text = describe_operation(c);
    for (const auto& [what, rows] : {std::pair{"input", input_rows}, {"output", output_rows}}) {
      if (rows[0] != 0) {
        text += format(", {} in SBUF as rows of {} bytes in {} partitions", what, rows[0], rows[1]);
      }
    }
    return format("{} on stream {}", text, stream);
  }
};

// A CC core and its program.
struct CollectivePrograms::Stream {
  StreamUse use;
  std::vector<size_t> operations;                          // of the model, in order
  std::vector<std::vector<ccom_device_member_t>> members;  // of each
  std::vector<uint32_t> groups;                            // of each, its number in the model
  std::vector<std::string> names;
  std::vector<ccom_device_collective_t> collectives;
  ccom_device_stream_t description{};
  const ccom_device_program_t* program = nullptr;
  uint32_t prologue = 0;  // instructions before the program's
  std::unique_ptr<DeviceMemory> code;
  std::unique_ptr<DeviceMemory> rings;
  std::unique_ptr<DeviceMemory> scratch;
  std::array<RingBytes, kCoreDmaEngines> m2s, s2m;
};

CollectivePrograms::CollectivePrograms(Core& core, std::shared_ptr<World> world)
    : core_(core), world_(std::move(world)) {}

CollectivePrograms::~CollectivePrograms() {
  proxy_.reset();  // it uses the programs
  auto library = collectives_library();
  for (const auto& stream : streams_) {
    if (stream->program != nullptr && library) (*library)->device_free(stream->program);
  }
}

Result<std::unique_ptr<CollectivePrograms>> CollectivePrograms::connect(
    Core& core, std::shared_ptr<World> world, const std::vector<neff::Collective>& operations,
    std::span<const CollectiveBuffers> buffers) {
  NEURON_CHECK(world->check_reachable());
  std::unique_ptr<CollectivePrograms> programs(new CollectivePrograms(core, std::move(world)));
  NEURON_TRY(uses, streams_of(operations, core.place()));
  for (const StreamUse& use : uses) {
    auto& stream = *programs->streams_.emplace_back(std::make_unique<Stream>());
    stream.use = use;
    for (size_t i = 0; i < operations.size(); ++i) {
      if (operations[i].stream == use.stream) stream.operations.push_back(i);
    }
  }
  NEURON_CHECK(programs->prepare(operations, buffers));
  return programs;
}

Result<void> CollectivePrograms::prepare(const std::vector<neff::Collective>& operations,
                                         std::span<const CollectiveBuffers> buffers) {
  NEURON_TRY(library, collectives_library());
  const CorePlace& place = core_.place();
  const uint32_t rank = world_->rank();
  std::vector<Announcement> mine(operations.size());
  char error[1024];

  for (const auto& stream_place : streams_) {
    Stream& stream = *stream_place;
    const uint32_t k = stream.use.stream;
    stream.description = {
        .size_of = sizeof(ccom_device_stream_t),
        .collective_size = sizeof(ccom_device_collective_t),
        .program_size = sizeof(ccom_device_program_t),
        .generation = place.chip->generation,
        .chip = world_->members()[rank].chip,
        .core = place.number,
        .stride = static_cast<uint32_t>(place.chip->dma_stride),
        .cc_core = place.cc_window(k),
        .m2s_doorbell = place.queue_register(0, NEURON_UDMA_M2S, NEURON_DMA_QUEUE_COLLECTIVES,
                                             NEURON_UDMAQ_TAIL_INC),
        .s2m_doorbell = place.queue_register(0, NEURON_UDMA_S2M, NEURON_DMA_QUEUE_COLLECTIVES,
                                             NEURON_UDMAQ_TAIL_INC),
        .one = core_.one().address(),
        .engines = stream.use.engines,
        .count = static_cast<uint32_t>(stream.operations.size()),
        .collectives = nullptr};
    for (const size_t i : stream.operations) {
      const neff::Collective& c = operations[i];
      const ReplicaGroup group = group_of(c, rank, world_->size());
      std::vector<ccom_device_member_t> members;
      for (const uint32_t r : group.ranks) {
        if (r >= world_->size()) {
          return fail(NRT_INVALID,
                      "{} names rank {} in its replica groups; the job has {} ranks "
                      "(ctx_device_count)",
                      describe_operation(c), r, world_->size());
        }
        const MemberPlace& member = world_->members()[r];
        const CorePlace there{place.chip, member.core};
        members.push_back({r, member.chip, member.core, member.device + 1, member.instance,
                           static_cast<uint16_t>(member.node), static_cast<uint16_t>(member.credit),
                           there.cc_window(k), 0, 0, 0});
      }
      if (members.empty()) {
        return fail(NRT_INVALID, "{} has no replica group with rank {}", describe_operation(c),
                    rank);
      }
      const size_t lengths =
          c.operation == CCOM_ALL_TO_ALL_V ? members.size() * members.size() : members.size();
      if (c.operation > CCOM_BARRIER && c.counts.size() != lengths) {
        return fail(NRT_INVALID, "{} has {} counts; its group has {} ranks, which need {}",
                    describe_operation(c), c.counts.size(), members.size(), lengths);
      }
      stream.members.push_back(std::move(members));
      stream.groups.push_back(group.number);
      stream.names.push_back(describe_operation(c));
    }
    for (size_t n = 0; n < stream.operations.size(); ++n) {
      const neff::Collective& c = operations[stream.operations[n]];
      const auto& members = stream.members[n];
      const auto self =
          std::find_if(members.begin(), members.end(),
                       [&](const ccom_device_member_t& m) { return m.world == rank; });
      ccom_device_collective_t collective{};
      collective.operation = c.operation;
      collective.type = c.type;
      collective.reduction = c.reduction;
      collective.algorithm = c.algorithm;
      collective.root = c.root;
      collective.rank = static_cast<uint32_t>(self - members.begin());
      collective.size = static_cast<uint32_t>(members.size());
      collective.count = c.count;
      collective.members = members.data();
      collective.pairs = c.pairs.data();
      collective.pair_count = static_cast<uint32_t>(c.pairs.size());
      if (c.operation > CCOM_BARRIER) {
        collective.counts = c.counts.data();
        collective.displacements = c.displacements.data();
        collective.receive_displacements = c.receive_displacements.data();
      }
      collective.input_layout = layout_of(c.input_rows);
      collective.output_layout = layout_of(c.output_rows);
      collective.name = stream.names[n].c_str();
      collective.done[0] = core_.semaphore_inc(NEURON_SEM_CC_DONE(k));
      collective.done_value[0] = 1;
      if (c.semaphore) {
        collective.done[1] = core_.semaphore_inc(*c.semaphore);
        collective.done_value[1] = c.semaphore_add;
      }
      stream.collectives.push_back(collective);
    }
    stream.description.collectives = stream.collectives.data();

    // All collectives of a stream share one scratch buffer: they run one after the other.
    const auto with_own = [&](size_t n, const CollectiveBuffers& b, uint64_t scratch) {
      for (ccom_device_member_t& m : stream.members[n]) {
        if (m.world != rank) continue;
        m.input = b.input;
        m.output = b.output;
        m.scratch = scratch;
      }
    };
    uint64_t most = 0;
    for (uint32_t n = 0; n < stream.collectives.size(); ++n) {
      with_own(n, buffers[stream.operations[n]], 0);
      uint64_t bytes = 0;
      const ccom_status_t status =
          library->device_scratch(&stream.description, n, &bytes, error, sizeof(error));
      if (status != CCOM_SUCCESS) {
        return fail(status_of_collectives(status), "{}: {}", stream.names[n], call_error(error));
      }
      most = std::max(most, bytes);
    }
    if (most != 0) {
      NEURON_TRY(scratch, DeviceMemory::allocate(
                              core_.device(), {.size = most,
                                               .core = core_.number(),
                                               .category = NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE,
                                               .purpose = "scratch memory of collectives"}));
      stream.scratch = std::move(scratch);
    }
    for (const size_t i : stream.operations) {
      const neff::Collective& c = operations[i];
      mine[i] = {buffers[i].input,
                 buffers[i].output,
                 stream.scratch ? stream.scratch->address() : 0,
                 c.operation > CCOM_BARRIER ? hash_of_lengths(c) : c.count,
                 static_cast<uint32_t>(c.operation),
                 static_cast<uint32_t>(c.type),
                 static_cast<uint32_t>(c.reduction),
                 c.root,
                 c.stream,
                 static_cast<uint32_t>(std::popcount(stream.use.engines)),
                 core_.collectives.load(std::memory_order_relaxed) == CollectivesState::kLost ||
                         core_.credit_numbering.load(std::memory_order_relaxed) !=
                             world_->credit_numbering()
                     ? 1u
                     : 0u,
                 {c.input_rows.row_bytes, c.input_rows.partitions},
                 {c.output_rows.row_bytes, c.output_rows.partitions}};
    }
  }

  NEURON_TRY(held, world_->hold());
  // After this exchange no rank executes an older model of these ranks on these CC cores.
  NEURON_TRY(all, world_->exchange(Occasion::kLoad, std::as_bytes(std::span(mine)), &met_));
  NEURON_CHECK(agree(compile(mine, all), operations));
  return world_->spans_instances() ? agree(open_proxy(), operations) : Result<void>();
}

// How this rank's collectives were planned: a line each, in the order of the model, behind a zero
// byte, which no sentence of a failure begins with.
std::string CollectivePrograms::plans(size_t operations) const {
  std::vector<std::string> lines(operations);
  bool any = false;
  for (const auto& stream : streams_) {
    if (stream->program == nullptr) continue;
    for (size_t n = 0; n < stream->operations.size() && n < stream->program->plan_count; ++n) {
      lines[stream->operations[n]] = stream->program->plans[n];
      any = true;
    }
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return any ? std::string(1, '\0') + text : "";
}

// Fails on all ranks if it fails on one: a rank that cannot go on tells the others, which would
// otherwise wait for it.
Result<void> CollectivePrograms::agree(const Result<void>& mine,
                                       const std::vector<neff::Collective>& operations) {
  const std::string said = mine ? plans(operations.size()) : mine.error().sentence;
  NEURON_TRY(outcomes, world_->exchange(Occasion::kReady, std::as_bytes(std::span(said))));
  NEURON_CHECK(mine);
  std::vector<std::string_view> plans;
  for (uint32_t r = 0; r < outcomes.size(); ++r) {
    const std::string_view text(reinterpret_cast<const char*>(outcomes[r].data()),
                                outcomes[r].size());
    if (!text.empty() && text[0] != 0) {
      return fail(NRT_FAILURE, "rank {} could not make its collectives ready: {}", r, text);
    }
    plans.push_back(text.substr(text.empty() ? 0 : 1));
  }
  return check_plans(operations, plans);
}

Result<void> CollectivePrograms::open_proxy() {
  NEURON_TRY(proxy, NetworkProxy::open(core_, *world_));
  for (const auto& stream : streams_) {
    NEURON_CHECK(proxy->add(stream->use.stream, *stream->program));
  }
  proxy_ = std::move(proxy);
  return {};
}

Result<void> CollectivePrograms::check_peers() const {
  NEURON_CHECK(world_->check_peers());
  return proxy_ ? proxy_->check() : Result<void>();
}

void CollectivePrograms::launch_begins() const {
  if (proxy_) proxy_->begin();
}

void CollectivePrograms::launch_ended() const {
  if (proxy_) proxy_->end();
}

// Compiles the streams from the announcements of all ranks.
Result<void> CollectivePrograms::compile(std::span<const Announcement> mine,
                                         const std::vector<Message>& all) {
  NEURON_TRY(library, collectives_library());
  const uint32_t rank = world_->rank();
  char error[1024];
  bool lost = false;
  for (const Message& message : all) {
    Announcement first;
    if (message.size() < sizeof(first)) continue;
    std::memcpy(&first, message.data(), sizeof(first));
    lost = lost || first.lost != 0;
  }
  NEURON_CHECK(clear_semaphores(lost));
  for (const auto& stream_place : streams_) {
    Stream& stream = *stream_place;
    for (size_t n = 0; n < stream.operations.size(); ++n) {
      const size_t i = stream.operations[n];
      for (ccom_device_member_t& member : stream.members[n]) {
        const Message& message = all[member.world];
        if (message.size() < (i + 1) * sizeof(Announcement)) {
          return fail(NRT_INVALID,
                      "rank {} has {} collectives, rank {} at least {}: they must load "
                      "the same program",
                      member.world, message.size() / sizeof(Announcement), rank, i + 1);
        }
        Announcement other;
        std::memcpy(&other, message.data() + i * sizeof(other), sizeof(other));
        const Announcement& own = mine[i];
        if (other.operation != own.operation || other.type != own.type ||
            other.reduction != own.reduction || other.count != own.count ||
            other.root != own.root || other.stream != own.stream || other.engines != own.engines ||
            other.input_rows != own.input_rows || other.output_rows != own.output_rows) {
          return fail(NRT_INVALID,
                      "collective {}: rank {} has {} ({} DMA engines), rank {} has {} ({} DMA "
                      "engines); ranks of a group must load the same program",
                      i + 1, rank, own.describe(), own.engines, member.world, other.describe(),
                      other.engines);
        }
        member.input = other.input;
        member.output = other.output;
        member.scratch = other.scratch;
      }
    }
    const ccom_status_t status =
        library->device_compile(&stream.description, &stream.program, error, sizeof(error));
    if (status != CCOM_SUCCESS) {
      return fail(status_of_collectives(status), "stream {}: {}", stream.use.stream,
                  call_error(error));
    }
    NEURON_CHECK(this->place(stream));
  }
  return {};
}

// Clears values that a failed execution or an earlier process may have left in the semaphores.
// `lost`: some rank of the world has lost its credits, so this rank must reset its own to match.
Result<void> CollectivePrograms::clear_semaphores(bool lost) {
  NEURON_TRY(turn, CoreTurn::take(core_));
  if (lost) core_.lose_collectives();
  core_.credit_numbering.store(world_->credit_numbering(), std::memory_order_relaxed);
  age_ = core_.collectives_age.load(std::memory_order_relaxed);
  if (core_.collectives.load(std::memory_order_relaxed) == CollectivesState::kClean) return {};
  for (uint32_t k = 0; k < core_.place().chip->cc_cores; ++k) {
    const uint64_t block = core_.place().cc_bar0(k) + NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_SET;
    for (uint32_t s = 0; s < NEURON_SEMAPHORES; ++s) {
      if (s > NEURON_CC_SEM_GO && s < NEURON_CC_SEM_PROGRAM_FIRST) continue;
      NEURON_CHECK(core_.device().write_register(block + s * 4ull, 0));
    }
  }
  core_.collectives.store(CollectivesState::kClean, std::memory_order_relaxed);
  return {};
}

// Puts rings and code into device memory. A prologue before the code points the queues to the
// rings.
Result<void> CollectivePrograms::place(Stream& stream) {
  const CorePlace& core = core_.place();
  const ccom_device_program_t& program = *stream.program;
  uint64_t half[2] = {0, 0};
  for (uint32_t e = 0; e < kCoreDmaEngines; ++e) {
    if ((stream.use.engines >> e & 1) == 0) continue;
    stream.m2s[e] = {half[0], slots_of(program.rings[e].m2s_count)};
    stream.s2m[e] = {half[1], slots_of(program.rings[e].s2m_count)};
    half[0] += bytes_of_slots(stream.m2s[e].slots);
    half[1] += bytes_of_slots(stream.s2m[e].slots);
  }
  NEURON_TRY(rings, DeviceMemory::allocate(core_.device(),
                                           {.size = half[0] + half[1],
                                            .core = core_.number(),
                                            .category = NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE,
                                            .purpose = "DMA rings of collectives"}));
  stream.rings = std::move(rings);
  std::vector<std::byte> sides[2] = {std::vector<std::byte>(half[0]),
                                     std::vector<std::byte>(half[1])};
  for (uint32_t e = 0; e < kCoreDmaEngines; ++e) {
    if ((stream.use.engines >> e & 1) == 0) continue;
    const ccom_device_ring_t& ring = program.rings[e];
    if (ring.m2s_count != 0) {
      std::memcpy(sides[0].data() + stream.m2s[e].at, ring.m2s,
                  size_t{ring.m2s_count} * NEURON_DESC_BYTES);
    }
    if (ring.s2m_count != 0) {
      std::memcpy(sides[1].data() + stream.s2m[e].at, ring.s2m,
                  size_t{ring.s2m_count} * NEURON_DESC_BYTES);
    }
    stream.s2m[e].at += half[0];
  }
  int result = ndl_dma_copy_descriptors(stream.rings->handle(), sides[0].data(), 0,
                                        static_cast<uint32_t>(half[0] / NEURON_DESC_BYTES),
                                        NEURON_DMA_QUEUE_TYPE_TX);
  if (result == 0) {
    result = ndl_dma_copy_descriptors(stream.rings->handle(), sides[1].data(), half[0],
                                      static_cast<uint32_t>(half[1] / NEURON_DESC_BYTES),
                                      NEURON_DMA_QUEUE_TYPE_RX);
  }
  if (result != 0) {
    return driver_error(NRT_HW_ERROR, result, "writing the DMA descriptors of collectives");
  }

  std::vector<std::byte> code;
  const auto write = [&](uint64_t address, uint32_t value) {
    isa::Instruction instruction;
    instruction.opcode = NEURON_OP_WRITE;
    instruction.engines = 1u << NEURON_ENGINE_CC;
    instruction.address = {address, 0, 1};
    instruction.scalar0 = {
        .value = value, .kind = NEURON_SCALAR_IMMEDIATE, .dtype = NEURON_DTYPE_U32};
    code.resize(code.size() + NEURON_INSTRUCTION_BYTES);
    isa::encode(instruction, std::span(code).last<NEURON_INSTRUCTION_BYTES>());
  };
  for (uint32_t e = 0; e < kCoreDmaEngines; ++e) {
    if ((stream.use.engines >> e & 1) == 0) continue;
    for (const auto& [side, at] : {std::pair{NEURON_UDMA_M2S, stream.m2s[e].at},
                                   std::pair{NEURON_UDMA_S2M, stream.s2m[e].at}}) {
      const uint64_t base = stream.rings->address() + at;
      write(core.queue_register(e, side, NEURON_DMA_QUEUE_COLLECTIVES, NEURON_UDMAQ_BASE_LO),
            static_cast<uint32_t>(base));
      write(core.queue_register(e, side, NEURON_DMA_QUEUE_COLLECTIVES, NEURON_UDMAQ_BASE_HI),
            static_cast<uint32_t>(base >> 32));
    }
  }
  stream.prologue = static_cast<uint32_t>(code.size() / NEURON_INSTRUCTION_BYTES);
  const auto* first = static_cast<const std::byte*>(program.code);
  code.insert(code.end(), first, first + size_t{program.instructions} * NEURON_INSTRUCTION_BYTES);
  NEURON_TRY(memory,
             DeviceMemory::allocate(core_.device(), {.size = code.size(),
                                                     .alignment = 4096,
                                                     .core = core_.number(),
                                                     .category = NEURON_MEMALLOC_TYPE_CODE_DEVICE,
                                                     .purpose = "programs of collective cores"}));
  stream.code = std::move(memory);
  return stream.code->write(code.data(), 0, code.size());
}

Result<void> CollectivePrograms::start() {
  const CorePlace& place = core_.place();
  if (proxy_) NEURON_CHECK(proxy_->listen());
  for (const auto& stream_place : streams_) {
    const Stream& stream = *stream_place;
    auto batch = std::make_unique<ndl_queue_init_batch>();
    batch->count = 0;
    for (uint32_t e = 0; e < kCoreDmaEngines; ++e) {
      if ((stream.use.engines >> e & 1) == 0) continue;
      ndl_queue_init& entry = batch->entries[batch->count++];
      entry = {};
      entry.eng_id = place.dma_engine(e);
      entry.qid = NEURON_DMA_QUEUE_COLLECTIVES;
      entry.tx_desc_count = stream.m2s[e].slots;
      entry.rx_desc_count = stream.s2m[e].slots;
      entry.tx_handle = stream.rings->handle();
      entry.rx_handle = stream.rings->handle();
    }
    int result = ndl_dma_queue_init_batch(core_.device().index(), batch.get());
    if (result != 0) {
      return driver_error(NRT_FAILURE, result,
                          "setting up the DMA queues of collectives of device {} core {}",
                          core_.device().index(), core_.number());
    }
    uint32_t words[16] = {};
    const auto put = [&](uint32_t offset, uint32_t value) { words[offset / 4] = value; };
    const uint64_t base = stream.code->address();
    put(NEURON_ENG_PROG_LO, static_cast<uint32_t>(base));
    put(NEURON_ENG_PROG_HI, static_cast<uint32_t>(base >> 32));
    put(NEURON_ENG_PROG_COUNT, stream.prologue + stream.program->instructions);
    put(NEURON_ENG_PREFETCH, 32);
    put(NEURON_ENG_MODE, core_.trace != nullptr ? CoreTrace::kMode : 0);
    put(NEURON_ENG_DONE_LO, static_cast<uint32_t>(core_.completion_address()));
    put(NEURON_ENG_DONE_HI, static_cast<uint32_t>(core_.completion_address() >> 32));
    put(NEURON_ENG_CONTROL, NEURON_CMD_START);
    result = ndl_program_engine(core_.device().ndl(), core_.number(),
                                place.cc_window(stream.use.stream) + NEURON_CC_ENGINE, words, 0,
                                sizeof(words));
    if (result != 0) {
      return driver_error(NRT_FAILURE, result, "starting collective core {} of device {} core {}",
                          stream.use.stream, core_.device().index(), core_.number());
    }
  }
  return {};
}

std::vector<StreamFacts> CollectivePrograms::facts() const {
  std::vector<StreamFacts> all;
  for (const auto& stream : streams_) {
    if (stream->program == nullptr) continue;
    StreamFacts facts;
    facts.stream = stream->use.stream;
    facts.rank = world_->rank();
    facts.prologue = stream->prologue;
    all.push_back(
        with_program(std::move(facts), stream->groups, stream->description, *stream->program));
  }
  return all;
}

std::string CollectivePrograms::describe(bool& busy) const {
  std::string text;
  auto library = collectives_library();
  if (!library) return text;
  for (const auto& stream : streams_) {
    const uint64_t block = core_.place().cc_bar0(stream->use.stream) + NEURON_CC_ENGINE;
    const auto status = core_.device().read_register(block + NEURON_ENG_STATUS);
    const auto pc = core_.device().read_register(block + NEURON_ENG_PC);
    if (!status || !pc || (*status & 0xF) == NEURON_STATE_IDLE || *pc < stream->prologue) continue;
    const uint32_t at = *pc - stream->prologue;
    const bool waits = (*status & 0xF) == NEURON_STATE_WAITING;
    char words[512];
    (*library)->device_describe(stream->program, at, words, sizeof(words));
    if (at != 0 || !waits) busy = true;
    if (!text.empty()) text += "; ";
    text += format("rank {} {}", world_->rank(),
                   words[0] != 0 ? std::string(words)
                                 : format("is at instruction {} of its collectives on stream {}",
                                          at, stream->use.stream));
  }
  return text;
}

}  // namespace neuron::runtime
