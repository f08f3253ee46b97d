// SPDX-License-Identifier: Apache-2.0
// --calibrate: chooses the measurements for the library's cost model and writes the file of prices.
//
// Callers: make_job (in every process of a run, the same), main. Thread-safe: functions of their
// arguments. Fails with a sentence when too little could be measured or the file cannot be written.
#ifndef TOOLS_NCCOM_TEST_RUN_CALIBRATION_H
#define TOOLS_NCCOM_TEST_RUN_CALIBRATION_H

#include <string>
#include <vector>

#include "tools/nccom-test/input/options.h"
#include "tools/nccom-test/output/row.h"

namespace neuron::nccom {

// Operations and algorithms that determine each price, all with the sizes of the command line.
std::vector<BlockOptions> calibration_blocks(const Options& options);

// Fits prices to the rows of `blocks`, which are in the order of calibration_blocks(), and writes
// the file. Returns what people read about it.
ccom::Result<std::string> calibrate(const Options& options, Backend backend,
                                    const std::vector<Block>& blocks);

}  // namespace neuron::nccom

#endif
