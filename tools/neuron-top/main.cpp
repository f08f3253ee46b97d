// SPDX-License-Identifier: Apache-2.0
// neuron-top: cores, memory and processes of this host's Neuron devices, on a terminal.
#include "tools/neuron-top/watch.h"

int main(int argc, char** argv) {
  neuron::top::Options options;
  if (const auto status = neuron::top::read_options(argc, argv, options)) return *status;
  return neuron::top::Watch(options).run();
}
