// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/output/failure_log.h"

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "driver/base/file_descriptor.h"
#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

using ccom::format;
using ccom::Result;

Result<std::string> write_failure_log(const Block& block, const Row& row,
                                      const Facts& configuration,
                                      const std::vector<std::string>& notes) {
  constexpr std::string_view kEnding = ".log";
  const char* folder = std::getenv("TMPDIR");
  std::string path = folder != nullptr && *folder != 0 ? folder : "/tmp";
  path += "/nccom_test_log_XXXXXX";
  path += kEnding;
  // A new file of this user alone: no name that somebody else could have prepared.
  const base::FileDescriptor file(mkostemps(path.data(), kEnding.size(), O_CLOEXEC));
  if (!file) return ccom::system_error(errno, format("log file {}", path));
  std::string text = format("{} {}, {} B, {} ranks: {}\n", operation_name(block.operation),
                            type_name(block.type), row.size, block.group_ranks, row.failure);
  for (const std::string& note : notes) text += note + "\n";
  for (const auto& [key, value] : configuration) text += format("{}: {}\n", key, value);
  NEURON_CHECK(write_text(path, text));
  return path;
}

}  // namespace neuron::nccom
