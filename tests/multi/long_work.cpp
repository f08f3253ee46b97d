// SPDX-License-Identifier: Apache-2.0
#include "tests/multi/long_work.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/process.h"

namespace neuron::multi {
namespace {

using Begun = std::function<void()>;
using Calls = void (*)(DeviceClient&, const Begun& begun);

// A forked process that makes calls below the runtime; `calls` says when the first of them comes,
// and returns when one fails.
class Caller final : public Working {
 public:
  Caller(const test::Daemon& daemon, Calls calls) {
    int begun[2];
    if (::pipe2(begun, O_CLOEXEC) != 0) return;
    begun_.reset(begun[0]);
    child_ = test::Child::forked([&] {
      const auto client = DeviceClient::open(daemon.socket());
      if (client == nullptr || !client->mark(0)) return 1;
      calls(*client, [&] { (void)!::write(begun[1], "", 1); });
      return 2;
    });
    ::close(begun[1]);
  }
  bool began() override {
    char byte = 0;
    return begun_ && ::read(begun_.get(), &byte, 1) == 1;
  }
  bool failed() const override { return child_.ended(); }
  void kill() override { child_.kill(); }

 private:
  base::FileDescriptor begun_;
  test::Child child_;
};

template <Calls kCalls>
std::unique_ptr<Working> calls(const test::Daemon& daemon) {
  return std::make_unique<Caller>(daemon, kCalls);
}

// multi-jobs (job.cpp), each on a core of its own.
class Jobs final : public Working {
 public:
  Jobs(const test::Daemon& daemon, const std::string& kind, unsigned count) {
    const std::string root = "127.0.0.1:" + std::to_string(test::free_port());
    for (unsigned rank = 0; rank < count; ++rank) {
      processes_.push_back(std::make_unique<test::Process>(
          test::Words{test::built("tests/multi-job"), kind, std::to_string(rank),
                      std::to_string(count)},
          test::Environment{{"NEURON_EMULATOR", daemon.emulator()},
                            {"NEURON_RT_VISIBLE_CORES", std::to_string(rank)},
                            {"NEURON_RT_ROOT_COMM_ID", root},
                            {"NEURON_RT_LOG_LEVEL", "QUIET"},
                            {"NEURON_RT_EXEC_TIMEOUT", "600"}}));
    }
  }
  bool began() override {
    return std::all_of(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process->line() == "begun"; });
  }
  bool failed() const override {
    return std::any_of(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process->ended(); });
  }
  void kill() override {
    // All at once: whoever is left would be told that a peer has failed.
    for (const auto& process : processes_) process->signal(SIGKILL);
    for (const auto& process : processes_) process->kill();
  }

 private:
  std::vector<std::unique_ptr<test::Process>> processes_;
};

std::unique_ptr<Working> compute(const test::Daemon& daemon) {
  return std::make_unique<Jobs>(daemon, "compute", 1);
}
std::unique_ptr<Working> long_instructions(const test::Daemon& daemon) {
  return std::make_unique<Jobs>(daemon, "instruction", 1);
}
std::unique_ptr<Working> loads(const test::Daemon& daemon) {
  return std::make_unique<Jobs>(daemon, "load", 1);
}
std::unique_ptr<Working> collectives(const test::Daemon& daemon) {
  return std::make_unique<Jobs>(daemon, "collective", 2);
}

template <uint32_t kDescriptors>
void run_ring(DeviceClient& client, const Begun& begun) {
  const uint64_t a = client.address(client.allocate(1 << 20, false));
  const uint64_t b = client.address(client.allocate(1 << 20, false));
  if (!client.make_ring(3, 2, kDescriptors)) return;
  client.fill_ring(a, b, 65536);
  begun();
  while (client.start_ring(kDescriptors - 1) == 0) {
  }
}

void fill(DeviceClient& client, const Begun& begun) {
  const uint64_t handle = client.allocate(512 << 20, false);
  begun();
  while (client.fill(handle, 512 << 20) == 0) {
  }
}

void copy_on_the_device(DeviceClient& client, const Begun& begun) {
  const uint64_t from = client.allocate(256 << 20, false);
  const uint64_t to = client.allocate(256 << 20, false);
  begun();
  while (client.copy(from, to, 256 << 20) == 0) {
  }
}

template <bool kHost>
void copy_buffers(DeviceClient& client, const Begun& begun) {
  std::vector<char> buffer(64 << 20, 1);
  const uint64_t handle = client.allocate(buffer.size(), kHost);
  begun();
  while (client.buffer(handle, buffer.data(), buffer.size(), !kHost) == 0) {
  }
}

constexpr LongWork kLongWorks[] = {
    {"RingOf4MDescriptors", calls<run_ring<4 << 20>>},
    {"RingOf256KDescriptors", calls<run_ring<256 << 10>>},
    {"Fills", calls<fill>},
    {"CopiesOnTheDevice", calls<copy_on_the_device>},
    {"CopiesOfBuffers", calls<copy_buffers<false>>},
    {"CopiesWithinTheHost", calls<copy_buffers<true>>},
    {"Compute", compute},
    {"LongInstructions", long_instructions},
    {"Loads", loads},
    {"Collectives", collectives},
};

}  // namespace

std::span<const LongWork> long_works() { return kLongWorks; }

}  // namespace neuron::multi
