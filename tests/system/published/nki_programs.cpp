// SPDX-License-Identifier: Apache-2.0
#include "tests/system/published/nki_programs.h"

#include "tests/support/files.h"

namespace neuron::published {

kernels::Neff nki_matmul(const std::string& kernel, const test::Words& arguments,
                         const std::string& target) {
  constexpr std::chrono::minutes kLimit{5};
  const test::Folder folder;
  const std::string neff = folder.path("kernel.neff");
  test::Words command = {test::built("bin/neuron-nki"),
                         "compile",
                         test::source("tests/system/published/matmul.py") + "::" + kernel,
                         "--target",
                         target,
                         "-o",
                         neff,
                         "--shapes"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const test::Run run = test::run(command, {{"NEURON_NKI_CACHE", ""}}, kLimit);
  const std::string bytes = test::read_file(neff);
  if (bytes.empty()) {
    return runtime::fail(NRT_INVALID, "matmul.py::{} is not compiled: {}", kernel, run.output);
  }
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

}  // namespace neuron::published
