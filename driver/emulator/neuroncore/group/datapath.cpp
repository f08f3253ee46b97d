// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/datapath.h"

#include <algorithm>

#include "driver/emulator/neuroncore/engines/gpsimd_engine.h"
#include "driver/emulator/neuroncore/engines/scalar_engine.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/isa/indirection.h"

namespace neuron::core {
namespace {

uint32_t saturated(uint64_t value) {
  return static_cast<uint32_t>(std::min<uint64_t>(value, 0xFFFFFFFF));
}

}  // namespace

WrittenRange range_of(CoreMemory& memory, const isa::Operand& operand) {
  if (operand.indirect) {  // wherever its offsets may lead
    return {operand.space, operand.start, operand.start + operand.parts - 1u, operand.base,
            memory.partition_bytes(operand.space)};
  }
  const OperandView view(memory, operand);
  return {operand.space, operand.start, operand.start + operand.parts - 1u, view.begin(),
          view.end()};
}

void Datapath::set_modes(UnitContext& unit, const Sequencer& s, const isa::Instruction& i,
                         bool stochastic) const {
  const CoreSettings& core = state_.settings;
  unit.rounding = stochastic ? numerics::Rounding::kStochastic : numerics::Rounding::kNearestEven;
  unit.subnormals = (core.mode & 2) != 0 || (s.mode & 0x10) != 0 ? numerics::Subnormals::kFlush
                                                                 : numerics::Subnormals::kKeep;
  unit.saturate = (core.mode & 4) != 0;
  // In strict mode every byte has been checked already, and its writer is known.
  unit.strict = state_.strict != nullptr;
  unit.strict_psum =
      !unit.strict && ((core.mode & NEURON_CORE_MODE_STRICT_PSUM) != 0 || (s.mode & 0x20) != 0);
  unit.check_nan = i.nan || (s.mode & 0x40) != 0;
  unit.seed = core.seed;
  unit.saw_nan = false;
  unit.outside_domain = 0;
}

Fault Datapath::execute(Issue& issue) {
  Sequencer& s = issue.s;
  const isa::Instruction& i = issue.i;
  UnitContext& unit = state_.units[s.engine];
  uint8_t at = NEURON_INST_DST;
  for (const isa::Operand* operand : {&i.dst, &i.src0, &i.src1}) {
    if (operand->present() && operand->elements() > kMaxElements) {
      return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0, saturated(operand->elements()), at + 8);
    }
    at += NEURON_OPERAND_BYTES;
  }
  const bool stochastic = state_.rounds_stochastically(s, i);
  set_modes(unit, s, i, stochastic);

  if (issue.cost.dependent != 0) {
    for (const isa::Operand* source : {&i.src0, &i.src1}) {
      if (source->present() && range_of(state_.memory, *source).overlaps(s.written)) {
        issue.gap = issue.cost.dependent;
      }
    }
    if (i.dst.present()) s.written = range_of(state_.memory, i.dst);
  }
  Fault fault = run_unit(unit, issue);
  if (fault.code == NEURON_FAULT_DOMAIN && state_.strict) {
    state_.strict->name_producer(fault, i.src0);
  }
  if (fault) return fault;
  if (i.dst.present() && stochastic) unit.random_position += numbers_of(i.dst);
  if (unit.saw_nan) {
    faults_.warn(s, NEURON_FAULT_NUMERIC_NAN, issue.pc, i.debug, i.opcode, {}, issue.now);
  }
  if (unit.outside_domain != 0) {
    faults_.warn(s, NEURON_FAULT_DOMAIN, issue.pc, i.debug, i.opcode,
                 {0, saturated(unit.outside_domain), 1}, issue.now);
  }
  return {};
}

Fault Datapath::run_unit(UnitContext& unit, const Issue& issue) {
  if (!isa::has_indirection(issue.i)) return run_direct(unit, issue, issue.i);
  if (Fault fault = tensor_engine_.check_scatter(issue.i)) return fault;
  return indirection_.run(
      unit, issue.i, [&](const isa::Instruction& tiles) { return run_direct(unit, issue, tiles); });
}

Fault Datapath::run_direct(UnitContext& unit, const Issue& issue, const isa::Instruction& i) {
  switch (i.group()) {
    case 2:
      return tensor_engine_.execute(unit, i);
    case 4:
      return i.opcode == NEURON_OP_LOAD_TABLE
                 ? execute_load_table(unit, i, state_.bus, state_.access_of(issue.s, issue.now))
                 : execute_activate(unit, i);
    case 5:
      return execute_pool(unit, i);
    default:
      return execute_vector(unit, i);
  }
}

void Datapath::reset(unsigned engine) {
  UnitContext& unit = state_.units[engine];
  unit.accumulator.fill(0.0f);
  unit.random_position = 0;
  unit.random_numbers = {};
  unit.states.seeded = false;
  unit.table.clear();
  if (engine == NEURON_ENGINE_PE) tensor_engine_.reset();
}

}  // namespace neuron::core
