// SPDX-License-Identifier: Apache-2.0
// The file that the row of a failure names, as the original has one for each size that failed.
// Callers: main, tests. Thread-safe: each call has a file of its own. Fails with the file and the
// reason.
#ifndef TOOLS_NCCOM_TEST_OUTPUT_FAILURE_LOG_H
#define TOOLS_NCCOM_TEST_OUTPUT_FAILURE_LOG_H

#include <string>
#include <vector>

#include "tools/nccom-test/output/report.h"

namespace neuron::nccom {

// Writes the sentence of the row, the settings of the run and `notes`, what ranks said later, to
// a new file nccom_test_log_XXXXXX.log in TMPDIR, or in /tmp. Returns its path; it is never removed
// here.
ccom::Result<std::string> write_failure_log(const Block& block, const Row& row,
                                            const Facts& configuration,
                                            const std::vector<std::string>& notes);

}  // namespace neuron::nccom

#endif
