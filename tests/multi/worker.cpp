// SPDX-License-Identifier: Apache-2.0
// multi-worker NEFF CORE: one process of many, told by lines on stdin what to do.
//
//   launch N   executes N times; answers microseconds per execution
//   rate MS    executes for that long; answers executions per second
//   cold N     the same with 10 ms of idling before each; answers the median
//   wild       statuses of writes and reads of a buffer that the process does not have
//   copy N     N times 64 MiB to the device and back; answers bytes per second
//   memcpy N   the same between buffers of this process
//   hash       executes once; answers a hash of all outputs
//   forever    executes until that fails; answers the status
//   reopen     closes the runtime, initialises it and loads again; answers ready
// Each answer is a line; "ready" is said first. A failure is "failed" and a reason.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/session.h"

namespace {

using neuron::bench::Session;

constexpr size_t kCopyBytes = 64u << 20;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  return std::fflush(stdout) == 0;
}

bool say_status(NRT_STATUS status) {
  return say(std::string("failed ") + nrt_get_status_as_str(status));
}

bool launch(Session& session, int count) {
  const double start = now_seconds();
  for (int i = 0; i < count; ++i) {
    if (const NRT_STATUS status = session.execute()) return say_status(status);
  }
  return say(std::to_string((now_seconds() - start) / count * 1e6));
}

bool launch_for(Session& session, int milliseconds) {
  const double start = now_seconds();
  double now = start;
  uint64_t count = 0;
  while (now - start < milliseconds / 1e3) {
    for (int i = 0; i < 16; ++i, ++count) {
      if (const NRT_STATUS status = session.execute()) return say_status(status);
    }
    now = now_seconds();
  }
  return say(std::to_string(static_cast<double>(count) / (now - start)));
}

bool launch_cold(Session& session, int count) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    ::usleep(10'000);
    const double start = now_seconds();
    if (const NRT_STATUS status = session.execute()) return say_status(status);
    times.push_back((now_seconds() - start) * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return say(std::to_string(times[count / 2]));
}

// Bytes moved per second; `tensor` null: between buffers.
bool copy(nrt_tensor_t* tensor, int count) {
  static std::vector<char> out(kCopyBytes, 1), in(kCopyBytes, 2), middle(kCopyBytes, 3);
  const double start = now_seconds();
  for (int i = 0; i < count; ++i) {
    if (tensor != nullptr) {
      NRT_STATUS status = nrt_tensor_write(tensor, out.data(), 0, kCopyBytes);
      if (status == NRT_SUCCESS) status = nrt_tensor_read(tensor, in.data(), 0, kCopyBytes);
      if (status != NRT_SUCCESS) return say_status(status);
    } else {
      std::memcpy(middle.data(), out.data(), kCopyBytes);
      asm volatile("" ::"r"(middle.data()) : "memory");
      std::memcpy(in.data(), middle.data(), kCopyBytes);
      asm volatile("" ::"r"(in.data()) : "memory");
    }
  }
  if (in[kCopyBytes - 1] != 1) return say("failed the bytes differ");
  return say(std::to_string(2.0 * kCopyBytes * count / (now_seconds() - start)));
}

// Buffers that this process does not have, of a message's size and of one that is mapped.
bool wild(int core) {
  nrt_tensor_t* tensor = nullptr;
  if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, kCopyBytes, "wild", &tensor) !=
      NRT_SUCCESS) {
    return say("failed to allocate");
  }
  auto* const nowhere = reinterpret_cast<char*>(0x10);
  std::string answer;
  for (const size_t size : {size_t{64}, kCopyBytes}) {
    answer += std::to_string(nrt_tensor_write(tensor, nowhere, 0, size)) + " " +
              std::to_string(nrt_tensor_read(tensor, nowhere, 0, size)) + " ";
  }
  nrt_tensor_free(&tensor);
  return say(answer);
}

bool hash(Session& session) {
  if (const NRT_STATUS status = session.execute()) return say_status(status);
  uint64_t sum = 1469598103934665603ull;
  for (nrt_tensor_t* tensor : session.outputs()) {
    std::vector<unsigned char> bytes(nrt_tensor_get_size(tensor));
    const NRT_STATUS status = nrt_tensor_read(tensor, bytes.data(), 0, bytes.size());
    if (status != NRT_SUCCESS) return say_status(status);
    for (const unsigned char byte : bytes) sum = (sum ^ byte) * 1099511628211ull;
  }
  return say(std::to_string(sum));
}

bool forever(Session& session) {
  NRT_STATUS status = NRT_SUCCESS;
  while (status == NRT_SUCCESS) status = session.execute();
  return say_status(status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int core = std::atoi(argv[2]);
  auto session = std::make_unique<Session>(argv[1], core);
  if (!session->error().empty()) {
    say("failed " + session->error());
    return 1;
  }
  nrt_tensor_t* large = nullptr;
  say("ready");
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    char word[32] = "";
    int count = 1;
    std::sscanf(line, "%31s %d", word, &count);
    const std::string command = word;
    if (command == "launch") {
      launch(*session, count);
    } else if (command == "rate") {
      launch_for(*session, count);
    } else if (command == "cold") {
      launch_cold(*session, count);
    } else if (command == "copy") {
      if (large == nullptr &&
          nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, kCopyBytes, "large", &large)) {
        say("failed to allocate");
      } else {
        copy(large, count);
      }
    } else if (command == "memcpy") {
      copy(nullptr, count);
    } else if (command == "wild") {
      wild(core);
    } else if (command == "hash") {
      hash(*session);
    } else if (command == "forever") {
      forever(*session);
    } else if (command == "reopen") {
      session.reset();
      nrt_close();
      const NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
      if (status != NRT_SUCCESS) {
        say_status(status);
        continue;
      }
      session = std::make_unique<Session>(argv[1], core);
      say(session->error().empty() ? "ready" : "failed " + session->error());
    } else {
      say("failed unknown command");
    }
  }
  if (large != nullptr) nrt_tensor_free(&large);
  session.reset();
  nrt_close();
  return 0;
}
