// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/device_participant.h"

#include <nrt/nec.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "ccom/request/names.h"
#include "ccom/simulator/device_model.h"
#include "tools/compiler/program_builder/program.h"
#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/data.h"
#include "tools/nccom-test/run/device_runtime.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;

namespace {

uint8_t element_type(ccom_type_t type) {
  static constexpr uint8_t kTypes[CCOM_TYPE_COUNT] = {
      NEURON_DTYPE_U8,  NEURON_DTYPE_I8,  NEURON_DTYPE_F8E3, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5,
      NEURON_DTYPE_U16, NEURON_DTYPE_I16, NEURON_DTYPE_F16,  NEURON_DTYPE_BF16, NEURON_DTYPE_U32,
      NEURON_DTYPE_I32, NEURON_DTYPE_F32, NEURON_DTYPE_U64,  NEURON_DTYPE_I64};
  return kTypes[type];
}

// Elements of the program's buffers, the same on every rank that takes part, root or not.
struct Extent {
  uint64_t input = 0, output = 0;
};

// The places of received blocks, by receiver and sender, if blocks lie one behind the other.
std::vector<uint64_t> receive_places(const Work& work) {
  std::vector<uint64_t> result(work.matrix.size());
  for (uint64_t to = 0; !result.empty() && to < work.ranks; ++to) {
    uint64_t end = 0;
    for (uint64_t from = 0; from < work.ranks; ++from) {
      result[to * work.ranks + from] = end;
      end += work.matrix[from * work.ranks + to];
    }
  }
  return result;
}

Extent extent_of(const Work& work) {
  if (has_variable_counts(work.operation)) {
    Extent most;
    const std::vector<uint64_t> places = receive_places(work);
    for (uint32_t rank = 0; rank < work.ranks; ++rank) {
      if (work.operation != CCOM_ALL_TO_ALL_V) {
        most.input = std::max(most.input, work.input_elements(rank));
        most.output = std::max(most.output, work.output_elements(rank));
        continue;
      }
      for (uint32_t other = 0; other < work.ranks; ++other) {
        const uint64_t sent = uint64_t{rank} * work.ranks + other;
        const uint64_t got = uint64_t{other} * work.ranks + rank;
        most.input = std::max(most.input, work.matrix[sent] + work.matrix_displacements[sent]);
        most.output = std::max(most.output, work.matrix[got] + places[sent]);
      }
    }
    return most;
  }
  const uint64_t all = work.count * work.ranks;
  switch (work.operation) {
    case CCOM_ALL_GATHER:
    case CCOM_GATHER:
      return {work.count, all};
    case CCOM_REDUCE_SCATTER:
    case CCOM_SCATTER:
      return {all, work.count};
    case CCOM_ALL_TO_ALL:
      return {all, all};
    default:
      return {work.count, work.count};
  }
}

// True if parts of the output may receive nothing.
bool keeps_what_was_there(const Work& work) {
  return takes_pairs(work.operation) || has_variable_counts(work.operation);
}

// True if blocks do not lie one behind the other: a rank knows only its own displacements, not
// those that others chose.
bool places_of_others_are_unknown(const Work& work, uint32_t place) {
  const std::vector<uint64_t> places = receive_places(work);
  return !std::equal(work.receive_displacements.begin(), work.receive_displacements.end(),
                     places.begin() + static_cast<ptrdiff_t>(uint64_t{place} * work.ranks));
}

struct Tensors {
  nrt_tensor_t* before = nullptr;  // what the output has before
  nrt_tensor_t* input = nullptr;
  nrt_tensor_t* output = nullptr;
};

// A call and its tensors, for each set of buffers.
struct DeviceCall {
  const Work* work = nullptr;
  uint64_t output_bytes = 0;
  bool owns_output = true;               // false: it is that of an earlier call
  Extent extent;                         // in place: both are of the larger
  uint64_t input_at = 0, output_at = 0;  // bytes, in place
  std::vector<Tensors> sets;
};

// Rows of tiles: `columns` elements in each of `partitions`, then the next ones beside them.
struct Rows {
  uint32_t columns = 3, partitions = 5;

  // Small buffers get few columns, so that every buffer ends inside a row and has several blocks.
  Rows(uint64_t elements, const TileShape& shape) {
    if (elements >= 1000) {
      columns = 100;
      partitions = 120;
    }
    if (shape.columns != 0) {
      columns = shape.columns;
      partitions = shape.partitions;
    }
  }
  uint64_t of_block() const { return uint64_t{columns} * partitions; }
  uint64_t blocks(uint64_t elements) const { return (elements + of_block() - 1) / of_block(); }
  // Rounded up to whole blocks, as a tile has them.
  uint64_t room(uint64_t elements) const { return blocks(elements) * of_block(); }
  builder::BufferAccess access(const builder::Buffer& buffer) const {
    const auto row = static_cast<int64_t>(columns);
    return buffer.pattern(0, {columns, buffer.columns / of_block(), partitions},
                          {1, static_cast<int64_t>(of_block()), row});
  }
};

// Tensors that an execution is given.
struct Set {
  nrt_tensor_set_t* inputs = nullptr;
  nrt_tensor_set_t* outputs = nullptr;
};

// Device memory is not as large as that of the host.
constexpr uint32_t kMostSets = 64;
constexpr uint32_t kPartitions = 128;

class Device final : public Participant {
 public:
  Device(std::shared_ptr<DeviceRuntime> runtime, uint32_t rank, uint32_t ranks, uint32_t core,
         uint32_t sets, const DeviceBuffers& buffers)
      : runtime_(std::move(runtime)),
        rank_(rank),
        ranks_(ranks),
        core_(static_cast<int>(core)),
        buffers_(buffers),
        sets_(std::clamp(sets, 1u, kMostSets)) {}
  ~Device() override { release(); }

  uint32_t rank() const override { return rank_; }

  Result<void> join() override { return checked(nrt_build_global_comm(core_, rank_, ranks_)); }

  Result<void> enter(const Phase& phase) override {
    release();
    phase_ = &phase;
    return {};
  }

  Result<void> prepare(const std::vector<BlockCase>& blocks) override {
    release();
    blocks_ = &blocks;
    calls_.resize(blocks.size());
    NEURON_TRY(generation, chip_generation());
    builder::Program program("nccom_test", generation);
    // The first physical core of a virtual one executes its collectives.
    uint32_t physical_cores = 1;
    NEURON_CHECK(checked(nec_get_virtual_core_size(&physical_cores)));
    program.physical_cores(std::max(1u, physical_cores));
    bool any = false;
    for (size_t b = 0; b < blocks.size(); ++b) {
      for (size_t w = 0; w < blocks[b].what.works.size(); ++w) {
        NEURON_TRY(added, add(program, b, w));
        any = any || added;
      }
    }
    if (!any) return {};  // nothing moves
    const auto neff = program.build();
    if (!neff) return ccom::Error{CCOM_UNSUPPORTED, neff.error().sentence};
    NEURON_CHECK(checked(
        nrt_load_collectives(neff->data(), neff->size(), core_, 1, rank_, ranks_, &model_)));
    for (Set& set : sets_) {
      NEURON_CHECK(checked(nrt_allocate_tensor_set(&set.inputs)));
      NEURON_CHECK(checked(nrt_allocate_tensor_set(&set.outputs)));
    }
    for (size_t b = 0; b < calls_.size(); ++b) {
      if (!blocks[b].takes_part) continue;
      for (size_t w = 0; w < calls_[b].size(); ++w) NEURON_CHECK(allocate(b, w));
    }
    return {};
  }

  size_t sets() const override { return sets_.size(); }
  uint32_t results_of(size_t) const override { return 1; }

  Result<void> write(const Slot& slot, std::span<const std::byte> input) override {
    get_on();
    const DeviceCall& call = calls_[slot.block][slot.work];
    if (call.sets.empty() || input.empty()) return {};
    return checked(
        nrt_tensor_write(call.sets[slot.set].input, input.data(), call.input_at, input.size()));
  }
  // What the host can write is copied over by each program, whether its collective did anything or
  // not; only another input tells the two apart.
  Result<void> renew(const Slot& slot, std::span<const std::byte> input) override {
    return write(slot, input);
  }
  uint32_t inputs_in_turn() const override { return 2; }

  Result<std::span<const std::byte>> result(const Slot& slot) override {
    get_on();
    const DeviceCall& call = calls_[slot.block][slot.work];
    result_.resize(call.output_bytes);
    if (!call.sets.empty() && !result_.empty() && call.owns_output) {
      NEURON_CHECK(checked(nrt_tensor_read(call.sets[slot.set].output, result_.data(),
                                           call.output_at, result_.size())));
    }
    return std::span<const std::byte>(result_);
  }

  Result<void> barrier() override { return checked(nrt_barrier(core_, rank_, ranks_)); }
  // In model time a program begins when its ranks do, whatever their hosts did before.
  bool waits_are_measured() const override { return false; }

  Result<void> execute(size_t iteration, std::vector<double>& times_us) override {
    std::fill(times_us.begin(), times_us.end(), 0.0);
    if (model_ == nullptr) return {};
    const Set& set = sets_[iteration % sets_.size()];
    NEURON_CHECK(checked(nrt_execute(model_, set.inputs, set.outputs)));
    get_on();
    nrt_open_execution_report_t report{};
    report.size = sizeof report;
    NEURON_CHECK(checked(nrt_open_get_execution_report(model_, &report)));
    const double time = report.device_ps != 0 ? static_cast<double>(report.device_ps) * 1e-6
                                              : static_cast<double>(report.host_ns) * 1e-3;
    std::fill(times_us.begin(), times_us.end(), time);
    return {};
  }

  std::string algorithm(size_t block) override {
    const BlockCase& of = (*blocks_)[block];
    if (of.what.works.empty()) return "";
    if (const std::string spread = algorithm_between_nodes(of.what.works.front());
        !spread.empty()) {
      return spread;
    }
    const auto generation = chip_generation();
    uint32_t physical_cores = 1;
    if (!generation || nec_get_virtual_core_size(&physical_cores) != NRT_SUCCESS) return "";
    std::vector<uint32_t> cores;
    for (const uint32_t rank : of.ranks) cores.push_back(rank * std::max(1u, physical_cores));
    const auto chosen = ccom::algorithm_on_devices(*generation, cores,
                                                   request_of(of.what.works.front(), of.in_place));
    return chosen ? algorithm_name(*chosen) : "";
  }

  // Ranks that wait end by their own time limits: the runtime has no way to tell them.
  void abort() override {}

 private:
  // Of a call of ranks on several hosts, as the runtime planned it, with what joins them; else "".
  std::string algorithm_between_nodes(const Work& work) const {
    std::array<char, 1 << 16> text{};
    if (model_ == nullptr ||
        nrt_open_get_collective_plans(model_, text.data(), text.size()) != NRT_SUCCESS) {
      return "";
    }
    const std::string name = ccom::operation_name(work.operation);
    const bool counted = work.operation != CCOM_BARRIER && !has_variable_counts(work.operation);
    const std::string begin = counted ? ccom::format("{} of {} ", name, work.count) : name + " ";
    std::istringstream lines(text.data());
    for (std::string line; std::getline(lines, line);) {
      const size_t by = line.find(" by "), end = line.find(" with ");
      if (!line.starts_with(begin) || by == std::string::npos || end == std::string::npos) continue;
      const char* way = line.find(", between nodes by NeuronLink") != std::string::npos
                            ? "NeuronLink"
                        : line.find(", between instances") != std::string::npos ? "network"
                                                                                : "";
      return *way == 0 ? "" : ccom::format("{}/{}", line.substr(by + 4, end - by - 4), way);
    }
    return "";
  }

  // Adds a call to the program; false: it moves nothing.
  Result<bool> add(builder::Program& program, size_t b, size_t w) {
    const BlockCase& block = (*blocks_)[b];
    const Work& work = block.what.works[w];
    const uint64_t width = type_size(work.type);
    DeviceCall& call = calls_[b].emplace_back();
    call.work = &work;
    call.output_bytes = work.output_elements(block.place) * width;
    call.extent = work.operation == CCOM_BARRIER ? Extent{1, 1} : extent_of(work);
    const Extent& extent = call.extent;
    if (extent.input == 0 || extent.output == 0) return false;
    if (!block.takes_part) {
      // Its place in the list of collectives, which all ranks go through together.
      builder::CollectiveOptions alone;
      alone.groups = {{rank_}};
      alone.stream = block.stream;
      for (uint32_t r = 0; r < block.repetitions; ++r) {
        program.collective(builder::Engine::kPool, CCOM_BARRIER, {}, {}, alone);
      }
      return true;
    }
    if (block.in_place) {
      uint64_t offset = 0;
      bool output_is_larger = true;
      work.in_place_offset(block.place, offset, output_is_larger);
      (output_is_larger ? call.input_at : call.output_at) = offset * width;
      call.extent.input = call.extent.output = std::max(extent.input, extent.output);
    }
    builder::CollectiveOptions options;
    options.count = work.count;
    if (work.operation == CCOM_ALL_TO_ALL_V) {
      if (places_of_others_are_unknown(work, block.place)) {
        return fail(CCOM_UNSUPPORTED,
                    "metadata has receive displacements of its own for each rank; on the device "
                    "what a rank receives lies one behind the other");
      }
      options.counts = work.matrix;
      options.displacements = work.matrix_displacements;
      options.receive_displacements = receive_places(work);
    } else if (has_variable_counts(work.operation)) {
      options.counts = work.counts;
      options.displacements = work.displacements;
    }
    options.reduction = work.reduction;
    options.algorithm = work.algorithm;
    options.root = work.root;
    options.group_size = work.ranks;
    options.pairs = work.pairs;
    options.stream = block.stream;
    const GroupConfig& groups = phase_->blocks[b].groups;
    if (groups.size() > 1) options.groups = groups;
    const std::string number = std::to_string(b) + "_" + std::to_string(w);
    const uint8_t type = element_type(work.type);
    if (buffers_.place == BufferPlace::kSbuf) {
      NEURON_CHECK(add_in_sbuf(program, block, call, options, number));
      return true;
    }
    if (buffers_.shared_output) {
      add_shared(program, block, call, options, number);
      return true;
    }
    const auto x = program.input("x" + number, type, {extent.input});
    const auto y = program.output("y" + number, type, {extent.output});
    const auto from = program.temporary("from" + number, type, {extent.input});
    const auto to = block.in_place ? from : program.temporary("to" + number, type, {extent.output});
    program.dma(builder::Engine::kSp, from.all(), x.all());
    // Elements that receive nothing must not hold what an earlier program left there.
    if (keeps_what_was_there(work) && !block.in_place) {
      const auto before = program.input("z" + number, type, {extent.output});
      program.dma(builder::Engine::kSp, to.all(), before.all());
    }
    for (uint32_t r = 0; r < block.repetitions; ++r) {
      program.collective(builder::Engine::kPool, work.operation, to, from, options);
    }
    program.dma(builder::Engine::kSp, y.all(), to.all());
    return true;
  }

  // The same with tiles, which the next call uses again. Elements that the operation does not
  // write, as behind the last row, are written before it: a core refuses to read unwritten memory.
  Result<void> add_in_sbuf(builder::Program& program, const BlockCase& block, DeviceCall& call,
                           builder::CollectiveOptions& options, const std::string& number) const {
    constexpr auto kOwner = builder::Engine::kSp;
    const Work& work = *call.work;
    const uint8_t type = element_type(work.type);
    NEURON_TRY(tiles, tiles_of(call, block.in_place));
    const auto& [in, out] = tiles;
    call.extent = {in.room(call.extent.input), out.room(call.extent.output)};
    options.row_columns = in.columns;
    const auto x = program.input("x" + number, type, {call.extent.input});
    const auto y = program.output("y" + number, type, {call.extent.output});
    const auto tile = [&](const char* name, const Rows& rows, uint64_t elements) {
      return program.sbuf(name + number, rows.partitions,
                          static_cast<uint32_t>(elements / rows.partitions), type);
    };
    const auto from = tile("from", in, call.extent.input);
    const auto to = block.in_place ? from : tile("to", out, call.extent.output);
    program.dma(kOwner, from.all(), in.access(x));
    if (!block.in_place) {
      const auto before = program.input("z" + number, type, {call.extent.output});
      program.dma(kOwner, to.all(), out.access(before));
    }
    for (uint32_t r = 0; r < block.repetitions; ++r) {
      if (work.operation == CCOM_BARRIER) {
        program.collective(builder::Engine::kPool, work.operation, builder::Buffer(),
                           builder::Buffer(), options);
      } else {
        program.collective(builder::Engine::kPool, work.operation, builder::Side(to.all()),
                           builder::Side(from.all()), options);
      }
    }
    program.dma(kOwner, out.access(y), to.all());
    program.release(from);
    if (!block.in_place) program.release(to);
    return {};
  }

  // How the tiles of input and output are laid out. Blocks of ranks lie beside one another in the
  // rows of a tile, or below one another, in rows of their own.
  Result<std::pair<Rows, Rows>> tiles_of(const DeviceCall& call, bool in_place) const {
    const uint64_t most = std::max(call.extent.input, call.extent.output);
    if (!buffers_.along_partitions) {
      const TileShape& one = buffers_.input.columns != 0 ? buffers_.input : buffers_.output;
      const TileShape& other = buffers_.output.columns != 0 ? buffers_.output : one;
      if (one.columns != other.columns || (in_place && one.partitions != other.partitions)) {
        return fail(CCOM_UNSUPPORTED,
                    "input and output have rows of {} and of {} elements{}; the runtime takes rows "
                    "of one length, and in place one tile",
                    one.columns, other.columns, in_place ? ", in place" : "");
      }
      return std::pair(Rows(most, one), Rows(most, other));
    }
    // A block of each rank: its rows below those of the rank before.
    const uint64_t least = std::min(call.extent.input, call.extent.output);
    const uint64_t blocks = most / std::max<uint64_t>(1, least);
    TileShape small = call.extent.input <= call.extent.output ? buffers_.input : buffers_.output;
    if (small.columns == 0) {
      small.partitions = static_cast<uint32_t>(std::max<uint64_t>(1, kPartitions / blocks));
      while (small.partitions > 1 && least % small.partitions != 0) --small.partitions;
      small.columns = static_cast<uint32_t>(least / small.partitions);
    }
    const TileShape large{small.columns, static_cast<uint32_t>(small.partitions * blocks)};
    if (in_place || uint64_t{small.columns} * small.partitions != least || least * blocks != most ||
        large.partitions > kPartitions) {
      return fail(CCOM_UNSUPPORTED,
                  "--cc-dim 1: {} blocks of {} elements below one another need tiles of {} x {} "
                  "that are whole, not in place, and have at most {} partitions together",
                  blocks, least, small.partitions, small.columns, kPartitions);
    }
    const bool grows = call.extent.input <= call.extent.output;
    return std::pair(Rows(most, grows ? small : large), Rows(most, grows ? large : small));
  }

  static const Work* last_that_moves(const BlockCase& block) {
    const Work* last = nullptr;
    for (const Work& work : block.what.works) {
      const Extent extent = extent_of(work);
      if (extent.input != 0 && extent.output != 0) last = &work;
    }
    return last;
  }

  // All works of a block write to one output, of the size of the largest.
  void add_shared(builder::Program& program, const BlockCase& block, DeviceCall& call,
                  const builder::CollectiveOptions& options, const std::string& number) {
    const uint8_t type = element_type(call.work->type);
    if (!shared_) {
      uint64_t most = 0;
      for (const Work& work : block.what.works) most = std::max(most, extent_of(work).output);
      shared_ = Shared{program.output("y" + number, type, {most}),
                       program.temporary("to" + number, type, {most})};
      call.extent.output = most;
    } else {
      call.owns_output = false;
    }
    const auto x = program.input("x" + number, type, {call.extent.input});
    const auto from = program.temporary("from" + number, type, {call.extent.input});
    program.dma(builder::Engine::kSp, from.all(), x.all());
    for (uint32_t r = 0; r < block.repetitions; ++r) {
      program.collective(builder::Engine::kPool, call.work->operation, shared_->to, from, options);
    }
    if (call.work == last_that_moves(block)) {
      program.dma(builder::Engine::kSp, shared_->y.all(), shared_->to.all());
      shared_.reset();
    }
  }

  Result<void> allocate(size_t b, size_t w) {
    DeviceCall& call = calls_[b][w];
    const Extent& extent = call.extent;
    if (extent.input == 0 || extent.output == 0) return {};
    const uint64_t width = type_size(call.work->type);
    const std::string number = std::to_string(b) + "_" + std::to_string(w);
    const bool keeps = (keeps_what_was_there(*call.work) || buffers_.place == BufferPlace::kSbuf) &&
                       !(*blocks_)[b].in_place && !buffers_.shared_output;
    for (const Set& set : sets_) {
      Tensors& one = call.sets.emplace_back();
      NEURON_CHECK(tensor("x" + number, extent.input * width, set.inputs, one.input));
      if (call.owns_output) {
        NEURON_CHECK(tensor("y" + number, extent.output * width, set.outputs, one.output));
      }
      if (!keeps) continue;
      NEURON_CHECK(tensor("z" + number, extent.output * width, set.inputs, one.before, kUntouched));
    }
    return {};
  }

  Result<void> tensor(const std::string& name, uint64_t bytes, nrt_tensor_set_t* set,
                      nrt_tensor_t*& result, std::byte content = {}) {
    NEURON_CHECK(checked(
        nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core_, bytes, name.c_str(), &result)));
    const std::vector<std::byte> contents(bytes, content);
    NEURON_CHECK(checked(nrt_tensor_write(result, contents.data(), 0, bytes)));
    return checked(nrt_add_tensor_to_tensor_set(set, name.c_str(), result));
  }

  void release() {
    for (Set& set : sets_) {
      if (set.inputs != nullptr) nrt_destroy_tensor_set(&set.inputs);
      if (set.outputs != nullptr) nrt_destroy_tensor_set(&set.outputs);
      set = {};
    }
    for (auto& block : calls_) {
      for (DeviceCall& call : block) {
        for (Tensors& tensors : call.sets) {
          for (nrt_tensor_t** one : {&tensors.input, &tensors.output, &tensors.before}) {
            if (*one != nullptr) nrt_tensor_free(one);
          }
        }
      }
    }
    calls_.clear();
    if (model_ != nullptr) nrt_unload(model_);
    model_ = nullptr;
  }

  const std::shared_ptr<DeviceRuntime> runtime_;
  const uint32_t rank_, ranks_;
  const int core_;
  const DeviceBuffers buffers_;
  // The output of the block whose works are being added.
  struct Shared {
    builder::Buffer y, to;
  };
  std::optional<Shared> shared_;
  const Phase* phase_ = nullptr;
  const std::vector<BlockCase>* blocks_ = nullptr;
  std::vector<std::vector<DeviceCall>> calls_;
  nrt_model_t* model_ = nullptr;
  std::vector<Set> sets_;
  std::vector<std::byte> result_;
};

}  // namespace

Result<std::vector<std::unique_ptr<Participant>>> make_device_participants(
    uint32_t first, uint32_t count, uint32_t ranks, uint32_t of_instance, const std::string& root,
    uint32_t sets, const DeviceBuffers& buffers) {
  std::string chosen;  // the cores that were named for a caller who named none
  if (!root.empty()) {
    setenv("NEURON_RT_ROOT_COMM_ID", root.c_str(), 1);
    // Each process takes the cores of its ranks; each instance counts its own from 0.
    const uint32_t core = first % of_instance;
    const std::string cores = std::to_string(core) + "-" + std::to_string(core + count - 1);
    if (std::getenv("NEURON_RT_VISIBLE_CORES") == nullptr) chosen = cores;
    setenv("NEURON_RT_VISIBLE_CORES", cores.c_str(), 0);
  } else {
    unsetenv("NEURON_RT_ROOT_COMM_ID");
  }
  auto opened = DeviceRuntime::open();
  if (!opened && !chosen.empty()) {
    return opened.error().with("{} cores {} of the instance, which has {} ranks",
                               count == 1 ? format("rank {} takes", first)
                                          : format("ranks {} to {} take", first, first + count - 1),
                               chosen, of_instance);
  }
  NEURON_TRY(runtime, std::move(opened));
  uint32_t cores = 0;
  NEURON_CHECK(checked(nrt_get_visible_vnc_count(&cores)));
  if (cores < count) {
    return fail(CCOM_INVALID, "{} ranks need a core each; {} are visible to this process", count,
                cores);
  }
  std::vector<std::unique_ptr<Participant>> result;
  for (uint32_t i = 0; i < count; ++i) {
    result.push_back(std::make_unique<Device>(runtime, first + i, ranks, i, sets, buffers));
  }
  return result;
}

}  // namespace neuron::nccom
