// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/fabric_signals.h"

#include <dlfcn.h>
#include <signal.h>

#include <string_view>

namespace neuron::ccom {
namespace {

// A library's constructors run after those of the libraries that it needs.
[[gnu::constructor]] void when_loaded() { give_signals_back(); }

bool of_a_provider(const void* code) {
  Dl_info info{};
  if (dladdr(code, &info) == 0 || info.dli_fname == nullptr) return false;
  std::string_view file = info.dli_fname;
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  return file.starts_with("libinfinipath.") || file.starts_with("libpsm");
}

}  // namespace

void give_signals_back() {
  for (const int number : {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM}) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) != 0) continue;
    const void* code = (action.sa_flags & SA_SIGINFO) != 0
                           ? reinterpret_cast<const void*>(action.sa_sigaction)
                           : reinterpret_cast<const void*>(action.sa_handler);
    if (!of_a_provider(code)) continue;
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(number, &standard, nullptr);
  }
}

}  // namespace neuron::ccom
