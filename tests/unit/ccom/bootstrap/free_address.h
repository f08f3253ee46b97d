// SPDX-License-Identifier: Apache-2.0
//
// An address of this host at which nobody listens, for a job's rank 0. Callers: tests. Its port is
// none that the kernel hands out to connections, which other tests make all the time.
#ifndef TESTS_UNIT_CCOM_BOOTSTRAP_FREE_ADDRESS_H
#define TESTS_UNIT_CCOM_BOOTSTRAP_FREE_ADDRESS_H

#include <string>

#include "tests/support/free_port.h"

namespace neuron::ccom {

inline std::string free_address() { return "127.0.0.1:" + std::to_string(test::free_port()); }

}  // namespace neuron::ccom

#endif
