// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/bootstrap.h"

#include "ccom/bootstrap/local_bootstrap.h"

namespace neuron::ccom {

Result<std::vector<std::unique_ptr<Bootstrap>>> Bootstrap::join_all(uint32_t size) {
  if (size == 0) {
    return fail(CCOM_INVALID, "a communicator has at least one rank, 0 were asked for");
  }
  return make_local_group(size);
}

Result<void> Bootstrap::barrier(base::Deadline deadline) {
  const auto all = all_gather({}, deadline);
  if (!all) {
    return all.error();
  }
  return {};
}

}  // namespace neuron::ccom
