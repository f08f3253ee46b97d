// SPDX-License-Identifier: Apache-2.0
#include "tools/common/version.h"

namespace neuron::tools {

const char* version() { return NEURON_PROJECT_VERSION; }

}  // namespace neuron::tools
