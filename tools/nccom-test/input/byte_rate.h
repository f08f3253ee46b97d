// SPDX-License-Identifier: Apache-2.0
// Rates in bytes a second as people write them ("12.5GB/s", "11GiB/s", "100Gbps"). Callers: reading
// of options. Thread-safe: a function of its arguments. Fails with a sentence that shows what was
// given.
#ifndef TOOLS_NCCOM_TEST_INPUT_BYTE_RATE_H
#define TOOLS_NCCOM_TEST_INPUT_BYTE_RATE_H

#include <string>

#include "ccom/base/error.h"

namespace neuron::nccom {

// Of --expected. A number alone counts GB/s, with `gibibytes` GiB/s.
ccom::Result<double> parse_byte_rate(const std::string& text, bool gibibytes);

}  // namespace neuron::nccom

#endif
