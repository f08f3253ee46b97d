// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/browser.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "tools/common/child_process.h"

namespace neuron::profile {
namespace {

using runtime::fail;
using runtime::Result;

// Those that open a file with the program that the user prefers.
constexpr const char* kOpeners[] = {"xdg-open", "x-www-browser"};
// A program that has not failed by then shows the page, and may stay until the browser is closed.
constexpr std::chrono::seconds kPatience{5};

}  // namespace

Result<void> show_in_browser(const std::string& file) {
  std::string tried;
  const std::string path = std::filesystem::absolute(file).string();
  for (const char* program : kOpeners) {
    using Stream = tools::ChildProcess::Stream;
    tools::ChildProcess child({.command = {program, path},
                               .output = Stream::kNothing,
                               .errors = Stream::kNothing,
                               .own_session = true});
    if (!child.ended_by(base::Deadline::after(kPatience))) {
      child.let_go();
      return {};
    }
    const tools::Ending& ending = child.ending();
    if (ending.good()) return {};
    if (ending.how == tools::Ending::How::kNotStarted) {
      tried += runtime::format("{}: {}; ", program, std::generic_category().message(ending.code));
    } else {
      const bool signalled = ending.how == tools::Ending::How::kSignalled;
      tried += runtime::format("{} ended with status {}; ", program,
                               signalled ? 128 + ending.code : ending.code);
    }
  }
  return fail(NRT_FAILURE, "no browser shows the page ({}): open '{}' in one by hand",
              tried.substr(0, tried.size() - 2), path);
}

}  // namespace neuron::profile
