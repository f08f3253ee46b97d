// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/summary.h"

#include <algorithm>
#include <tuple>

namespace neuron::profile {
namespace {

class Accumulator final : public Visitor {
 public:
  // `end`: of the execution; what the engines do behind it is none of it.
  Accumulator(Summary& summary, const Program& program, uint64_t end)
      : sum_(summary), program_(program), end_(end), collectives_(summary.collectives, program) {}

  void instruction(const InstructionEvent& e) override {
    ++sum_.events;
    collectives_.instruction(e);
    const uint64_t time = e.end - e.begin;
    const uint64_t added = busy_[e.engine].add(e.begin, std::min(e.end, end_));
    any_.add(e.begin, std::min(e.end, end_));
    const bool setup = program_.is_setup(e.engine, e.pc);
    const uint64_t wait = setup ? 0 : e.wait;
    EngineTotals& engine = sum_.engines[e.engine];
    InstructionTotals& one = sum_.instructions[e.engine][e.pc];
    one.debug = e.debug;
    one.opcode = e.opcode;
    for (Totals* totals : {static_cast<Totals*>(&engine), static_cast<Totals*>(&one),
                           &sum_.opcodes[{e.engine, e.opcode}]}) {
      ++totals->count;
      totals->time += time;
      totals->active += added;
      totals->wait += wait;
    }
    if (wait != 0) engine.wait_by_cell[e.wait_cell] += wait;
    if (e.opcode == NEURON_OP_TRANSPOSE && program_.has(e.engine, e.pc)) {
      const uint64_t rows = program_.instruction(e.engine, e.pc).src0.parts;
      sum_.transposed += rows * rows * e.elements;
    }
    if (setup || is_setup_opcode(e.opcode)) return;
    if (!begun_ || e.begin < sum_.first) sum_.first = e.begin;
    begun_ = true;
    sum_.last = std::max(sum_.last, e.end);
  }

  void stream_instruction(const StreamEvent& e) override {
    ++sum_.events;
    collectives_.stream_instruction(e);
  }

  void transfer(const TransferEvent& e) override {
    ++sum_.events;
    collectives_.transfer(e);
    const uint64_t time = e.end - e.begin;
    QueueTotals& queue = sum_.queues[e.queue];
    ++queue.transfers;
    queue.descriptors += e.descriptors;
    queue.bytes += e.bytes;
    queue.time += time;
    queue_busy_[e.queue].add(e.begin, e.end);
    if (e.writes != 0 && e.descriptors != 0 &&
        e.bytes / e.descriptors < machine_.efficient_descriptor) {
      queue.small_descriptors += e.descriptors;
      queue.small_time += time;
    }
    dma_.add(e.begin, e.end);
    any_.add(e.begin, e.end);
    sum_.dma_time += time;
    if ((e.reads & NEURON_PLACE_HBM) != 0) sum_.hbm_read += e.bytes;
    if ((e.writes & NEURON_PLACE_HBM) != 0) sum_.hbm_write += e.bytes;
    if ((e.reads & NEURON_PLACE_CORE) != 0) sum_.sbuf_read += e.bytes;
    if ((e.writes & NEURON_PLACE_CORE) != 0) sum_.sbuf_write += e.bytes;
    if (e.writes == 0) return;
    if (!begun_ || e.begin < sum_.first) sum_.first = e.begin;
    begun_ = true;
    sum_.last = std::max(sum_.last, e.end);
  }

  void update(const UpdateEvent&) override {
    ++sum_.events;
    ++sum_.updates;
  }
  void gap(uint32_t slot, uint64_t lost) override {
    sum_.lost += lost;
    collectives_.gap(slot, lost);
  }

  void finish() {
    for (auto& [number, busy] : queue_busy_) sum_.queues[number].active = busy.total();
    sum_.active = any_.total();
    sum_.dma_active = dma_.total();
    collectives_.finish();
  }

 private:
  Summary& sum_;
  const Program& program_;
  const uint64_t end_;
  const Machine machine_ = machine_of(program_.generation);
  bool begun_ = false;
  std::array<BusyTime, NEURON_CORE_ENGINES> busy_;
  // DMA engines end their transfers in any order, and rings come one behind the other.
  std::map<unsigned, CoveredTime> queue_busy_;
  CoveredTime dma_, any_;
  CollectivesVisitor collectives_;
};

double seconds(uint64_t ps) { return static_cast<double>(ps) * 1e-12; }
struct EngineKey {
  unsigned engine;
  const char* key;
};
constexpr EngineKey kEngineKeys[] = {{NEURON_ENGINE_PE, "tensor"},
                                     {NEURON_ENGINE_DVE, "vector"},
                                     {NEURON_ENGINE_ACTIVATION, "scalar"},
                                     {NEURON_ENGINE_POOL, "gpsimd"},
                                     {NEURON_ENGINE_SP, "sync"}};

}  // namespace

bool is_setup_opcode(unsigned opcode) {
  switch (opcode) {
    case NEURON_OP_NOP:
    case NEURON_OP_HALT:
    case NEURON_OP_DRAIN:
    case NEURON_OP_EVENT:
    case NEURON_OP_WRITE:
    case NEURON_OP_NOTIFY:
    case NEURON_OP_COMPLETE:
    case NEURON_OP_BRK:
    case NEURON_OP_MODE:
    case NEURON_OP_ORDER:
      return true;
    default:
      return opcode >> 8 == 1;  // registers and flow
  }
}

QueueTotals Summary::all_queues() const {
  QueueTotals all;
  for (const auto& [number, queue] : queues) {
    all.transfers += queue.transfers;
    all.descriptors += queue.descriptors;
    all.bytes += queue.bytes;
    all.time += queue.time;
    all.small_descriptors += queue.small_descriptors;
    all.small_time += queue.small_time;
  }
  all.active = dma_active;
  return all;
}

std::optional<size_t> representative(const Part& part) {
  for (size_t i = part.executions.size(); i-- > 0;) {
    if (!part.executions[i].failed) return i;
  }
  if (part.executions.empty()) return std::nullopt;
  return part.executions.size() - 1;
}

Result<Summary> summarize(Profile& profile, uint32_t part, size_t execution) {
  Summary summary;
  const Part& of = profile.parts()[part];
  const Execution& one = of.executions[execution];
  Accumulator accumulator(summary, of.program, one.device_ps != 0 ? one.device_ps : UINT64_MAX);
  NEURON_CHECK(profile.visit(part, execution, accumulator));
  accumulator.finish();
  summary.total = one.device_ps != 0 ? one.device_ps : summary.last;
  summary.multiply_accumulates = one.multiply_accumulates;
  return summary;
}

std::vector<InstructionRow> instructions_by_time(const Program& program, const Summary& summary) {
  std::vector<InstructionRow> rows;
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    for (const auto& [pc, totals] : summary.instructions[engine]) {
      if (program.is_setup(engine, pc) || totals.active == 0) continue;
      rows.push_back({engine, pc, &totals});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const InstructionRow& a, const InstructionRow& b) {
    return std::tie(b.totals->active, a.engine, a.pc) < std::tie(a.totals->active, b.engine, b.pc);
  });
  return rows;
}

std::vector<Metric> metrics_of(const Profile& profile, uint32_t part, const Summary& s) {
  const Program& program = profile.parts()[part].program;
  const Machine machine = machine_of(program.generation);
  const QueueTotals dma = s.all_queues();
  std::vector<Metric> list;
  const auto count = [&](std::string name, uint64_t value) {
    list.push_back({std::move(name), static_cast<double>(value), true});
  };
  const auto real = [&](std::string name, double value) {
    list.push_back({std::move(name), value, false});
  };
  const double total = seconds(s.total);
  const double transposes = 2.0 * static_cast<double>(s.transposed);
  const double flops = 2.0 * static_cast<double>(s.multiply_accumulates) + transposes;
  const double hbm = static_cast<double>(s.hbm_bytes());
  uint64_t inputs = 0, outputs = 0;
  for (const PortInfo& port : program.ports) (port.output ? outputs : inputs) += port.bytes;

  real("total_time", total);
  real("total_exec_time", seconds(s.last - std::min(s.first, s.last)));
  real("total_active_time", seconds(s.active));
  real("total_active_time_percent", share(s.active, s.total));
  const isa::Clock& clock = isa::generation_row(program.generation).timing.others;
  count("neuroncore_cycle_count", s.total * clock.cycles / clock.picoseconds);
  count("event_count", s.updates);
  count("trace_count", s.events - s.updates);
  count("hardware_flops", static_cast<uint64_t>(flops));
  count("transpose_flops", static_cast<uint64_t>(transposes));
  count("model_flops", static_cast<uint64_t>(flops - transposes));
  real("mm_arithmetic_intensity", hbm == 0 ? 0 : (flops - transposes) / hbm);
  real("peak_flops_bandwidth_ratio", machine.peak_flops / machine.hbm_bytes_per_second);
  real("mfu_estimated_percent",
       total == 0 ? 0 : (flops - transposes) / (machine.peak_flops * total));
  real("hfu_estimated_percent", total == 0 ? 0 : flops / (machine.peak_flops * total));
  real("mbu_estimated_percent", total == 0 ? 0 : hbm / (machine.hbm_bytes_per_second * total));
  count("hbm_read_bytes", s.hbm_read);
  count("hbm_write_bytes", s.hbm_write);
  count("sbuf_read_bytes", s.sbuf_read);
  count("sbuf_write_bytes", s.sbuf_write);
  count("weight_size_bytes", program.weights_bytes);
  count("inputs_and_weights_size_bytes", inputs + program.weights_bytes);
  count("inputs_outputs_weights_size_bytes", inputs + outputs + program.weights_bytes);
  real("dma_active_time", seconds(s.dma_active));
  real("dma_active_time_percent", share(s.dma_active, s.total));
  count("dma_transfer_count", dma.descriptors);
  count("dma_transfer_total_bytes", dma.bytes);
  real("dma_transfer_average_bytes",
       dma.descriptors == 0
           ? 0
           : static_cast<double>(dma.bytes) / static_cast<double>(dma.descriptors));
  real("dma_transfer_time", seconds(s.dma_time));
  real("dma_packet_time", seconds(s.dma_time));
  count("dma_active_cycles", s.dma_active * clock.cycles / clock.picoseconds);
  real("mbu_min_read_util_percent", total == 0
                                        ? 0
                                        : static_cast<double>(inputs + program.weights_bytes) /
                                              (machine.hbm_bytes_per_second * total));
  count("dma_queue_count", s.queues.size());
  uint64_t made = 0, made_bytes = 0;
  for (const auto& [number, queue] : s.queues) {
    const Queue* known = program.queue(number);
    if (known == nullptr || !known->dynamic) continue;
    made += queue.descriptors;
    made_bytes += queue.bytes;
  }
  count("static_dma_packet_count", dma.descriptors - made);
  count("static_dma_size", dma.bytes - made_bytes);
  real("static_dma_packet_percent", share(dma.descriptors - made, dma.descriptors));
  real("static_dma_size_percent", share(dma.bytes - made_bytes, dma.bytes));
  count("software_dynamic_dma_packet_count", made);
  count("software_dynamic_dma_size", made_bytes);
  real("dynamic_dma_packet_percent", share(made, dma.descriptors));
  real("dynamic_dma_size_percent", share(made_bytes, dma.bytes));
  for (const auto& [engine, key] : kEngineKeys) {
    const std::string prefix = std::string(key) + "_engine_";
    const EngineTotals& totals = s.engines[engine];
    real(prefix + "active_time", seconds(totals.active));
    real(prefix + "active_time_percent", share(totals.active, s.total));
    real(prefix + "instruction_time", seconds(totals.time));
    count(prefix + "instruction_count", totals.count);
  }
  const auto opcode = [&](unsigned engine, unsigned number) {
    const auto found = s.opcodes.find({engine, number});
    return found == s.opcodes.end() ? Totals{} : found->second;
  };
  uint64_t products = 0;
  for (const unsigned number : {NEURON_OP_MATMUL, NEURON_OP_MATMUL_MX, NEURON_OP_MATMUL_SPARSE}) {
    products += opcode(NEURON_ENGINE_PE, number).count;
  }
  count("matmul_instruction_count", products);
  const Totals activate = opcode(NEURON_ENGINE_ACTIVATION, NEURON_OP_ACTIVATE);
  count("activate_instruction_count", activate.count);
  real("activate_instruction_time", seconds(activate.time));
  const Collectives& cc = s.collectives;
  count("cc_op_count", cc.count);
  real("cc_op_time", seconds(cc.time));
  real("cc_op_active_time", seconds(cc.active));
  real("cc_op_active_time_percent", share(cc.active, s.total));
  StreamTotals cores;
  for (const auto& [number, stream] : cc.streams) {
    cores.instructions += stream.instructions;
    cores.time += stream.time;
    cores.active += stream.active;
  }
  count("cc_cores_instruction_count", cores.instructions);
  real("cc_cores_instruction_time", seconds(cores.time));
  real("cc_cores_instruction_active_time", seconds(cores.active));
  real("cc_cores_instruction_active_time_percent", share(cores.active, s.total));
  return list;
}

}  // namespace neuron::profile
