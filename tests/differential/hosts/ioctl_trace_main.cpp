// SPDX-License-Identifier: Apache-2.0
// ioctl-trace: prints the trace of the script on the device that NEURON_EMULATOR names, or on
// /dev/neuron0. Exit status 0: the trace is complete; 1: no device.
#include <cstdio>

#include "tests/differential/hosts/ioctl_trace.h"

int main() {
  std::string error;
  const std::shared_ptr<neuron::ndl::Port> port = neuron::ndl::port(error);
  if (port == nullptr) {
    fprintf(stderr, "ioctl-trace: %s\n", error.c_str());
    return 1;
  }
  const std::string text = neuron::trace::Trace(*port).run();
  if (fputs(text.c_str(), stdout) < 0 || fflush(stdout) != 0) {
    fprintf(stderr, "ioctl-trace: the trace cannot be written\n");
    return 1;
  }
  return 0;
}
