// SPDX-License-Identifier: Apache-2.0
#include "tools/common/bus_factor.h"

namespace neuron::tools {

double bus_factor(ccom_operation_t operation, uint32_t ranks) {
  const double r = ranks;
  switch (operation) {
    case CCOM_ALL_REDUCE:
      return ranks == 0 ? 0 : 2 * (r - 1) / r;
    case CCOM_ALL_GATHER:
    case CCOM_REDUCE_SCATTER:
    case CCOM_ALL_TO_ALL:
    case CCOM_ALL_GATHER_V:
    case CCOM_REDUCE_SCATTER_V:
    case CCOM_ALL_TO_ALL_V:
    case CCOM_GATHER:
    case CCOM_SCATTER:
      return ranks == 0 ? 0 : (r - 1) / r;
    default:
      return 1;
  }
}

}  // namespace neuron::tools
