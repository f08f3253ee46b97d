// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/nki/lowering.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "driver/isa/cost.h"
#include "tools/compiler/nki/context.h"
#include "tools/compiler/nki/order.h"

namespace neuron::nki {

using builder::Program;
using runtime::fail;
using runtime::Result;

namespace {

constexpr uint64_t kVersion = 1;
constexpr size_t kMostFiles = 4096;

struct Target {
  const char* name;
  uint8_t generation;
};
constexpr Target kTargets[] = {{"trn1", 2}, {"inf2", 2}, {"trn2", 3}, {"trn3", 4}};

struct Header {
  std::string kernel;
  uint8_t generation = 3;
  std::vector<std::string> files;
  bool order_is_free = false;  // The kernel leaves the order of its calls to the compiler
};

// The lines of the trace, one after the other.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  // False at the end. Empty lines are left out.
  bool next(std::string_view& line) {
    while (!text_.empty()) {
      const size_t end = text_.find('\n');
      line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++number_;
      if (!line.empty()) return true;
    }
    return false;
  }
  uint64_t number() const { return number_; }

 private:
  std::string_view text_;
  uint64_t number_ = 0;
};

Result<Header> read_header(Lines& lines) {
  std::string_view text;
  if (!lines.next(text)) return fail(NRT_INVALID, "line 1 is missing: the trace is empty");
  Record record(text, lines.number());
  const std::string op = record.operation();
  NEURON_CHECK(record.result());
  if (op != "nki_trace") {
    return fail(
        NRT_INVALID,
        "line 1 of a trace has \"op\": \"nki_trace\", found \"{}\": this is no trace of an NKI "
        "kernel",
        op);
  }
  const uint64_t version = record.count("version", UINT32_MAX);
  Header header;
  header.kernel = record.text("kernel");
  const std::string target = record.text("target");
  header.files = record.texts("files", kMostFiles);
  const std::string order = record.text_or("order", "kept");
  NEURON_CHECK(record.result());
  if (version != kVersion) {
    return fail(NRT_INVALID, "the trace has version {}, this program reads version {}", version,
                kVersion);
  }
  const auto* found = std::find_if(std::begin(kTargets), std::end(kTargets),
                                   [&](const Target& t) { return target == t.name; });
  if (found == std::end(kTargets)) {
    return fail(NRT_INVALID, "the target is \"{}\"; expected trn1, inf2, trn2 or trn3", target);
  }
  header.generation = found->generation;
  if (order != "kept" && order != "free") {
    return fail(NRT_INVALID, "the order of the calls is \"{}\"; expected kept or free", order);
  }
  header.order_is_free = order == "free";
  return header;
}

// One physical core: its program, and what is known of its memory.
struct Core {
  Core(const Header& header, std::string suffix)
      : own(new Own{Program(header.kernel, header.generation)}),
        program(own->program),
        memory(program, header.files, std::move(suffix)),
        context{program, memory, accumulation, header.generation} {}
  Core(const Header& header, Program& larger)
      : program(larger),
        memory(program, header.files, ""),
        context{program, memory, accumulation, header.generation} {}

  struct Own {
    Program program;
  };
  std::unique_ptr<Own> own;  // Not there if the kernel is a part of a larger one
  Program& program;
  Accumulation accumulation;
  Memory memory;
  Context context;
};

class Lowering {
 public:
  Lowering(std::string_view text, Header header) : text_(text), header_(std::move(header)) {}

  Result<Signature> signature() {
    Signature result;
    result.generation = header_.generation;
    NEURON_CHECK(each_record([&](Record& record) -> Result<void> {
      const std::string& op = record.operation();
      const bool placed = op == "tile" && record.has("address");
      if (op == "core" || op == "while" || op == "collective" || placed) {
        return fail(NRT_INVALID,
                    "a kernel inside of a model has no {}; run it alone with neuron-nki",
                    placed          ? "tiles at addresses that it chooses"
                    : op == "core"  ? "second core"
                    : op == "while" ? "loops whose rounds the device decides"
                                    : "collectives");
      }
      if (op != "hbm") return {};
      const std::string kind = record.text("kind");
      const KernelTensor tensor{record.text("name"), record.dtype("dtype"),
                                record.counts("shape", 32)};
      if (kind == "input" || kind == "inout") result.inputs.push_back(tensor);
      if (kind == "output" || kind == "inout") result.outputs.push_back(tensor);
      return record.result();
    }));
    return result;
  }

  Result<void> run_in(Program& program, std::deque<builder::Buffer> inputs,
                      std::deque<builder::Buffer> outputs, const std::string& prefix) {
    NEURON_CHECK(signature());  // What a part of a model cannot have
    cores_.push_back(std::make_unique<Core>(header_, program));
    core_ = cores_[0].get();
    core_->memory.give(std::move(inputs), std::move(outputs), prefix);
    NEURON_CHECK(prepare());
    NEURON_CHECK(lower_all());
    core_->memory.finish();
    core_->memory.release_all();
    return {};
  }

  Result<Lowered> run(const LoweringOptions& options) {
    // Named apart, because the names of a file's inputs are unique, and those of its outputs.
    for (const char* suffix : {"", "@1"}) {
      cores_.push_back(std::make_unique<Core>(header_, suffix));
    }
    NEURON_CHECK(prepare());
    for (size_t c = 0; both_cores_ && c < cores_.size(); ++c) {
      cores_[c]->memory.is_of_pair(c == 1);
      cores_[c]->context.pair = true;
    }
    if (both_cores_ && options.physical_cores != 2) {
      return fail(NRT_INVALID,
                  "the trace is of two physical cores, and a virtual core has {}; run it with "
                  "NEURON_LOGICAL_NC_CONFIG=2, or a grid of 1",
                  options.physical_cores);
    }
    core_ = cores_[0].get();
    NEURON_CHECK(lower_all());
    Lowered result;
    for (size_t c = 0; c < (both_cores_ ? 2 : 1); ++c) {
      if (cores_[c]->context.in_while()) {
        return fail(NRT_INVALID, "a loop of the device has no end: \"end_while\" is missing");
      }
      cores_[c]->memory.finish();
    }
    cores_[0]->program.physical_cores(options.physical_cores,
                                      both_cores_ ? &cores_[1]->program : nullptr);
    NEURON_TRY(neff, cores_[0]->program.build());
    result.neff = std::move(neff);
    result.first_wait = first_wait_;
    report(result);
    return result;
  }

 private:
  template <class Visit>
  Result<void> each_line(const Visit& visit) {
    Lines lines(text_);
    std::string_view line;
    lines.next(line);  // The header
    while (lines.next(line)) NEURON_CHECK(visit(line, lines.number()));
    return {};
  }

  template <class Visit>
  Result<void> each_record(const Visit& visit) {
    return each_line([&](std::string_view line, uint64_t number) -> Result<void> {
      Record record(line, number);
      NEURON_CHECK(record.result());
      if (auto done = visit(record); !done) return located(done.error(), record);
      return {};
    });
  }

  Result<void> lower_all() {
    // Tiles at places of the kernel's choice may be the same memory, which order.h does not know.
    if (!header_.order_is_free || places_chosen_) {
      return each_record([&](Record& record) { return lower_one(record); });
    }
    NEURON_CHECK(each_line([&](std::string_view line, uint64_t number) -> Result<void> {
      waiting_.reached(number);
      NEURON_TRY(room, lower_or_wait(line, number));
      // What has waited longest comes first to the room.
      while (room && !waiting_.empty()) {
        room = false;
        trying_again_ = true;
        for (const WaitingRecord& record : waiting_.take()) {
          waiting_.done(record);
          NEURON_TRY(more, lower_or_wait(record.line, record.number));
          room = room || more;
        }
        trying_again_ = false;
      }
      return {};
    }));
    if (!waiting_.empty()) return *no_room_;
    return {};
  }

  // True if something waits and the line may have made room. A tile without room waits, as does
  // what it keeps waiting.
  Result<bool> lower_or_wait(std::string_view line, uint64_t number) {
    Record record(line, number);
    NEURON_CHECK(record.result());
    const std::string& op = record.operation();
    WaitingRecord waiting;  // Empty as long as nothing waits
    if (waits_for_room()) {
      if (op == "core" || op == "while" || op == "end_while" || op == "collective") {
        return *no_room_;
      }
      waiting = waiting_record(line, number, record);
      NEURON_CHECK(record.result());
      if (waiting_.must_wait(waiting)) {
        waiting_.add(std::move(waiting));
        return false;
      }
    }
    auto done = lower_one(record);
    if (!done && op == "tile" && done.error().status == NRT_RESOURCE) {
      const runtime::Error error = located(done.error(), record);
      if (core_->context.in_while()) return error;
      NEURON_TRY(ended, end_unused_tiles());
      if (ended) done = lower_one(record);
      if (!done && done.error().status == NRT_RESOURCE) {
        if (!waits_for_room()) no_room_ = located(done.error(), record);
        if (first_wait_.empty()) first_wait_ = place_of(record);
        waiting_.add(waiting_record(line, number, record));
        return false;
      }
    }
    if (!done) return located(done.error(), record);
    return op == "free" ||
           std::any_of(waiting.touches.begin(), waiting.touches.end(), [&](const Touch& touch) {
             return touch.of == Touch::Of::kTile && waiting_.unused(touch.id);
           });
  }

  bool waits_for_room() const { return trying_again_ || !waiting_.empty(); }

  Result<bool> end_unused_tiles() {
    if (!waiting_.knows_uses()) {
      NEURON_CHECK(each_line([&](std::string_view line, uint64_t number) -> Result<void> {
        Record record(line, number);
        if (record.operation() == "free") return {};
        for (const Touch& touch : touches_of(record)) {
          if (touch.of == Touch::Of::kTile) waiting_.used_until(touch.id, number);
        }
        return record.result();
      }));
      waiting_.learned_uses();
    }
    return core_->memory.end_tiles([&](uint32_t id) { return waiting_.unused(id); });
  }

  // What later lines say about memory that is declared before them.
  Result<void> prepare() {
    core_ = cores_[0].get();
    return each_record([&](Record& record) -> Result<void> {
      const std::string& op = record.operation();
      if (op == "core") return change_core(record);
      if (op == "tile" && record.has("address")) return reserve(record);
      if (op == "collective") reach_from_outside(record);
      return record.result();
    });
  }

  Result<void> reserve(Record& record) {
    places_chosen_ = true;
    name_source(core_->program, record);
    NEURON_CHECK(core_->memory.reserve(record));
    if (!core_->program.ok()) return core_->program.build().error();
    return {};
  }

  // The line of Python that the program's operations from here on belong to.
  void name_source(Program& program, const Record& record) const {
    const uint32_t file = record.file();
    program.parts().schedule.journal().source(
        file < header_.files.size() ? header_.files[file] : "unknown", record.line());
  }

  void reach_from_outside(Record& record) {
    for (const char* key : {"dst", "src"}) {
      const Operand operand = record.operand_or_none(key);
      if (operand.present && !operand.on_chip) core_->memory.reach_by_ranks(operand.id);
    }
  }

  Result<void> begin_while(Record& record) {
    const Operand condition = record.operand("condition");
    NEURON_CHECK(record.result());
    NEURON_TRY(word, core_->memory.tile(condition));
    const uint64_t bytes = word.elements() * word.parts * isa::dtype_bytes(word.dtype);
    if (word.space != NEURON_SPACE_SBUF || bytes != 4) {
      return fail(NRT_INVALID,
                  "the condition of a loop has {} bytes in {}; expected a word in SBUF", bytes,
                  word.space == NEURON_SPACE_SBUF ? "SBUF" : "PSUM");
    }
    core_->program.parts().schedule.begin_while(
        {NEURON_ADDRESS_ADDR, builder::Transfer::kOnChip,
         word.start * uint64_t{NEURON_SBUF_PARTITION_STRIDE} + word.base});
    core_->memory.enter_loop();
    return {};
  }

  Result<void> end_while() {
    if (!core_->context.in_while()) {
      return fail(NRT_INVALID, "a loop of the device ends here, but none has begun");
    }
    core_->program.parts().schedule.end_while();
    core_->memory.leave_loop();
    return {};
  }

  Result<void> change_core(Record& record) {
    if (record.count("number", 1) != 1 || core_ != cores_[0].get()) {
      return fail(NRT_INVALID, "a trace goes from core 0 to core 1, once");
    }
    core_ = cores_[1].get();
    both_cores_ = true;
    return record.result();
  }

  // "k.py:12"; empty: the trace does not say.
  std::string place_of(const Record& record) const {
    if (record.line() == 0 || record.file() >= header_.files.size()) return "";
    return base::format("{}:{}", header_.files[record.file()], record.line());
  }

  runtime::Error located(runtime::Error error, Record& record) const {
    const std::string place = place_of(record);
    if (place.empty()) return error;
    const std::string& op = record.operation();
    const bool declares = op == "tile" || op == "hbm";
    if (!declares) name_tiles(error, record);
    // An error of the program's journal names the place itself.
    if (error.sentence.rfind(place, 0) == 0) return error;
    return declares ? error.with("{}", place) : error.with("{}: {}", place, op);
  }

  // Adds which tiles the call was about, unless the sentence names one, or no tile is known because
  // only the signature is read.
  void name_tiles(runtime::Error& error, Record& record) const {
    if (core_ == nullptr) return;
    if (!record.ok() || error.sentence.find("tile \"") != std::string::npos) return;
    std::string tiles;
    for (const char* key : {"dst", "src", "data", "data1", "data2", "stationary", "moving"}) {
      const Operand operand = record.operand_or_none(key);
      if (!record.ok() || !operand.on_chip || core_->memory.number_of(operand.id) == 0) continue;
      tiles += base::format("{}{} is {}", tiles.empty() ? "" : ", ", key,
                            core_->memory.describe(operand.id));
    }
    if (!tiles.empty()) error.sentence += "; " + tiles;
  }

  Result<void> lower_one(Record& record) {
    const std::string& op = record.operation();
    name_source(core_->program, record);
    NEURON_CHECK(dispatch(op, record));
    core_->memory.drop_own();
    if (!core_->program.ok()) return core_->program.build().error();
    return {};
  }

  Result<void> dispatch(const std::string& op, Record& record) {
    Memory& memory = core_->memory;
    if (op == "core") return change_core(record);
    if (op == "tile") {
      NEURON_CHECK(memory.declare_tile(record));
      Operand all;
      all.present = all.on_chip = true;
      all.id = static_cast<uint32_t>(record.count("id", UINT32_MAX));
      all.parts = static_cast<uint32_t>(record.count("parts", NEURON_PARTITIONS));
      all.dtype = record.dtype("dtype");
      all.pattern = {{1, record.count("columns", UINT32_MAX)}};
      if (!core_->program.ok() || !memory.in_psum(all)) return {};
      NEURON_TRY(access, memory.tile(all));
      core_->accumulation.made(access);
      return {};
    }
    if (op == "free") {
      core_->accumulation.dropped(
          memory.number_of(static_cast<uint32_t>(record.count("id", UINT32_MAX))));
      return memory.drop_tile(record);
    }
    if (op == "hbm") return declare_tensor(record);
    if (op == "while") return begin_while(record);
    if (op == "end_while") return end_while();
    NEURON_CHECK(check_indirect(op, record));
    for (const auto find : {find_vector_operation, find_search_operation, find_tensor_operation,
                            find_memory_operation, find_pair_operation, find_collective_operation,
                            find_later_operation}) {
      if (const Operation operation = find(op)) return operation(core_->context, record);
    }
    return fail(NRT_INVALID, "nki.isa.{} is not available on this chip model", op);
  }

  // Calls whose operands may be indirect. What the engine cannot do, the program says.
  Result<void> check_indirect(const std::string& op, Record& record) const {
    struct Call {
      std::string_view op;
      std::array<std::string_view, 5> keys;
    };
    static constexpr Call kCalls[] = {
        {"tensor_copy", {"dst", "src"}},
        {"tensor_copy_predicated", {"dst", "predicate"}},
        {"nc_matmul", {"dst", "stationary", "moving"}},
        {"nc_matmul_mx", {"dst", "stationary", "moving", "stationary_scale", "moving_scale"}},
        {"tensor_tensor", {"dst", "data1"}},
        {"tensor_scalar", {"dst", "data"}},
        {"tensor_reduce", {"dst", "data"}},
        {"tensor_scalar_cumulative", {"dst", "src"}},
        {"tensor_scalar_reduce", {"dst", "data"}},
        {"activation", {"dst", "data"}},
        {"activate2", {"dst", "data"}},
        {"exponential", {"dst", "src"}},
    };
    for (const auto& [key, operand] : record.all_operands()) {
      if (!operand.index) continue;
      const auto call = std::find_if(std::begin(kCalls), std::end(kCalls),
                                     [&](const Call& one) { return one.op == op; });
      if (call == std::end(kCalls)) {
        return fail(NRT_INVALID,
                    "{} is an indirect view, and nisa.{} takes none; copy its elements into a tile "
                    "with nisa.tensor_copy first",
                    key, op);
      }
      if (std::find(call->keys.begin(), call->keys.end(), key) == call->keys.end()) {
        return fail(NRT_INVALID,
                    "{} of nisa.{} cannot be an indirect view; copy its elements into a tile with "
                    "nisa.tensor_copy first",
                    key, op);
      }
      NEURON_CHECK(core_->context.needs_generation(4, "tensor indirection"));
    }
    return {};
  }

  // Of what comes before the second program, inputs, outputs and shared temporaries are the same
  // memory, constants the same contents, for both cores.
  Result<void> declare_tensor(Record& record) {
    const std::string kind = record.text("kind");
    const auto id = static_cast<uint32_t>(record.count("id", UINT32_MAX));
    if (both_cores_ && (kind == "inout" || kind == "output") &&
        (cores_[0]->memory.reached_by_ranks(id) || cores_[1]->memory.reached_by_ranks(id))) {
      return fail(NRT_INVALID,
                  "an output of a collective is copied as a whole; two cores cannot share it");
    }
    const bool shared = kind == "temporary" && record.flag("shared");
    if (both_cores_ && core_ == cores_[1].get() && (shared || kind == "inout")) {
      return fail(NRT_INVALID,
                  "a tensor of both cores that is shared or changed stands behind the line of the "
                  "second core; expected it before");
    }
    NEURON_CHECK(core_->memory.declare_tensor(record));
    if (!both_cores_ || core_ == cores_[1].get() || (kind == "temporary" && !shared)) return {};
    name_source(cores_[1]->program, record);
    return cores_[1]->memory.declare_tensor(record);
  }

  using LineCosts = std::map<std::tuple<std::string, uint32_t, uint32_t>, LineCost>;

  void count(Program& program, LineCosts& lines) const {
    const builder::Schedule& schedule = program.parts().schedule;
    const auto& labels = schedule.journal().labels();
    for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      for (const builder::Step& step : schedule.steps()[engine]) {
        if (step.label == 0) continue;
        const builder::Label& label = labels[step.label - 1];
        LineCost& cost = lines[{label.section, label.line, engine}];
        cost.file = label.section;
        cost.line = label.line;
        cost.engine = engine;
        ++cost.instructions;
        cost.picoseconds += isa::cost_of(step.instruction, engine, header_.generation).interval;
      }
    }
  }

  void report(Lowered& result) const {
    LineCosts lines;
    for (const auto& core : cores_) {
      count(core->program, lines);
      for (const builder::Transfer& transfer : core->program.parts().schedule.transfers()) {
        ++result.transfers;
        result.transferred_bytes += transfer.to.bytes();
      }
      for (TilePlace& place : core->memory.places()) result.tiles.push_back(std::move(place));
    }
    for (const auto& [key, cost] : lines) result.lines.push_back(cost);
    std::stable_sort(
        result.lines.begin(), result.lines.end(),
        [](const LineCost& a, const LineCost& b) { return a.picoseconds > b.picoseconds; });
  }

  std::string_view text_;
  Header header_;
  std::vector<std::unique_ptr<Core>> cores_;  // The second stays empty if only one computes
  Core* core_ = nullptr;                      // Whose records are being read
  bool both_cores_ = false;
  bool places_chosen_ = false;             // By the kernel, for some tile
  WaitingRecords waiting_;                 // For room on the chip
  bool trying_again_ = false;              // Some of them were taken to be lowered
  std::optional<runtime::Error> no_room_;  // For the first of them
  std::string first_wait_;
};

}  // namespace

Result<Signature> signature_of(std::string_view trace) {
  Lines lines(trace);
  NEURON_TRY(header, read_header(lines));
  return Lowering(trace, std::move(header)).signature();
}

Result<void> inline_kernel(std::string_view trace, builder::Program& program,
                           std::deque<builder::Buffer> inputs, std::deque<builder::Buffer> outputs,
                           const std::string& prefix) {
  Lines lines(trace);
  NEURON_TRY(header, read_header(lines));
  return Lowering(trace, std::move(header))
      .run_in(program, std::move(inputs), std::move(outputs), prefix);
}

Result<Lowered> lower(std::string_view trace, const LoweringOptions& options) {
  Lines lines(trace);
  NEURON_TRY(header, read_header(lines));
  return Lowering(trace, std::move(header)).run(options);
}

}  // namespace neuron::nki
