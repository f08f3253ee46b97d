// SPDX-License-Identifier: Apache-2.0
//
// An address of this host at which nobody listens, for a job's rank 0. Callers: tests. Another
// process may take it before it is used.
#ifndef TESTS_UNIT_CCOM_BOOTSTRAP_FREE_ADDRESS_H
#define TESTS_UNIT_CCOM_BOOTSTRAP_FREE_ADDRESS_H

#include <unistd.h>

#include <string>

#include "ccom/bootstrap/address.h"

namespace neuron::ccom {

inline std::string free_address() {
  Address address;
  address.bytes = {127, 0, 0, 1};
  const auto listener = open_listener(address, "test");
  close(*listener);
  return text_of(address);
}

}  // namespace neuron::ccom

#endif
