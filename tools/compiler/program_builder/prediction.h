// SPDX-License-Identifier: Apache-2.0
//
// How long a program will take on its core, in model time, before anything has executed it.
//
// Concept: the engines' steps are played in the order in which they can start, with the chip's own
// prices for instructions (driver/isa). The sixteen DMA engines share each transfer, so they count
// as one server, which takes the transfers of one engine in the order of their doorbells, and those
// of several engines by turns. A transfer whose end was told is not delayed by later ones. Left out
// are the runtime's own instructions.
// Callers: the lowering. Thread-safe: no state. Gives nothing for programs with loops, collectives
// or a second core, whose times are not those of the steps alone.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_PREDICTION_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_PREDICTION_H

#include <array>
#include <optional>

#include "hw/isa.h"
#include "tools/compiler/program_builder/schedule.h"

namespace neuron::builder {

struct Prediction {
  double microseconds = 0;
  // How long the engines, and behind them DMA, had work.
  std::array<double, NEURON_CORE_ENGINES + 1> busy{};
};

std::optional<Prediction> predict(const Schedule& schedule, unsigned generation);

}  // namespace neuron::builder

#endif
