// SPDX-License-Identifier: Apache-2.0
// `neuron-digits train`: trains the digits model on a NeuronCore in three precisions and shows the
// losses. Callers: main.cpp, one thread, between nrt_init and nrt_close. Fails: false, with a
// sentence on stderr.
#ifndef TOOLS_NEURON_DIGITS_TRAIN_COMMAND_H
#define TOOLS_NEURON_DIGITS_TRAIN_COMMAND_H

#include <span>
#include <string>

#include "tools/neuron-digits/dataset.h"

namespace neuron::digits {

struct TrainOptions {
  std::string models = "build/neff";  // folder of the NEFFs of a step
  std::string output = ".";           // folder of loss.csv and loss.svg
  unsigned epochs = 240;
  float rate = 0.05f;
};

bool train(const TrainOptions& options, std::span<const Digit> training,
           std::span<const Digit> unseen);

}  // namespace neuron::digits

#endif
