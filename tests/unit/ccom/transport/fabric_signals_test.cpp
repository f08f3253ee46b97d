// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/fabric_signals.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

namespace neuron::ccom {
namespace {

const void* handler_of(int number) {
  struct sigaction action {};
  EXPECT_EQ(sigaction(number, nullptr, &action), 0);
  return reinterpret_cast<const void*>(action.sa_handler);
}

TEST(FabricSignals, NoProviderHoldsASignalOfTheProgram) {
  for (const int number : {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM}) {
    Dl_info info{};
    if (dladdr(handler_of(number), &info) == 0) continue;
    const std::string file = info.dli_fname;
    EXPECT_EQ(file.find("libinfinipath"), file.npos) << "signal " << number << " goes to " << file;
    EXPECT_EQ(file.find("libpsm"), file.npos) << "signal " << number << " goes to " << file;
  }
}

TEST(FabricSignals, HandlersOfTheProgramStay) {
  const auto before = signal(SIGTERM, [](int) {});
  const void* own = handler_of(SIGTERM);
  give_signals_back();
  EXPECT_EQ(handler_of(SIGTERM), own);
  signal(SIGTERM, before);
}

}  // namespace
}  // namespace neuron::ccom
