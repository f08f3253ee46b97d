// SPDX-License-Identifier: Apache-2.0
// api-other-process fresh|peer|neighbour: what tests of the C interface need another process for.
//
//   fresh  has never initialised anything; ends with status 0 if each call says so
//   neighbour  adds on its first core without a pause. Answers each line of stdin with the number
//          of executions so far, each of which gave the right values in the same model time
//   peer   core 1, connected with core 0 of this host. Says "ready", then answers lines of stdin:
//          send BYTES SEED       sends a pattern; says the bytes that went and "good"
//          receive BYTES SEED    receives; "good" or "wrong": is it the pattern of SEED + 1?
//          wait BYTES SEED       begins to receive; says "waits"
// A failure of the peer or the neighbour is its sentence.
#include <nrt/nrt_async_sendrecv.h>
#include <poll.h>
#include <unistd.h>

#include <iostream>
#include <sstream>

#include "tests/support/eventually.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

// Until `look` gives another status than success, or sets its flag.
template <class Look>
bool succeeds(Look&& look) {
  NRT_STATUS status = NRT_SUCCESS;
  bool done = false;
  const bool ended = eventually([&] {
    status = look(&done);
    return status != NRT_SUCCESS || done;
  });
  return ended && status == NRT_SUCCESS;
}

void say(const std::string& text) { std::cout << text << std::endl; }

bool serve() {
  constexpr const char* kHere = "127.0.0.1";
  nrt_async_sendrecv_comm_t *to = nullptr, *from = nullptr;
  if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS ||
      nrt_async_sendrecv_init(1) != NRT_SUCCESS ||
      nrt_async_sendrecv_connect(kHere, 0, 1, &to) != NRT_SUCCESS ||
      nrt_async_sendrecv_accept(kHere, 0, 1, &from) != NRT_SUCCESS) {
    return false;
  }
  for (nrt_async_sendrecv_comm_t* comm : {to, from}) {
    const bool stands =
        succeeds([&](bool* done) { return nrt_async_sendrecv_test_comm(comm, done); });
    if (!stands) return false;
  }
  say("ready");
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    size_t bytes = 0;
    int seed = 0;
    words >> command >> bytes >> seed;
    nrt_tensor_t* tensor = nullptr;
    if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 1, bytes, "t", &tensor) != NRT_SUCCESS) {
      return false;
    }
    const bool sends = command == "send";
    const Bytes mine = pattern(bytes, static_cast<uint8_t>(seed));
    nrt_async_sendrecv_request_t* request = nullptr;
    if (nrt_tensor_write(tensor, mine.data(), 0, bytes) != NRT_SUCCESS ||
        (sends ? nrt_async_sendrecv_send_tensor(tensor, 0, bytes, to, &request)
               : nrt_async_sendrecv_recv_tensor(tensor, 0, bytes, from, &request)) != NRT_SUCCESS) {
      return false;
    }
    if (command == "wait") {
      say("waits");
      continue;
    }
    size_t size = 0;
    const bool done = succeeds(
        [&](bool* ended) { return nrt_async_sendrecv_test_request(request, ended, &size); });
    if (!done) return false;
    Bytes found(bytes);
    if (nrt_tensor_read(tensor, found.data(), 0, bytes) != NRT_SUCCESS) return false;
    const bool good = sends || found == pattern(bytes, static_cast<uint8_t>(seed + 1));
    say(std::to_string(size) + (good ? " good" : " wrong"));
    nrt_tensor_free(&tensor);
  }
  nrt_close();
  return true;
}

// One execution with numbers of its own; nothing, or what was wrong.
std::string add(Loaded& model, uint64_t number, uint64_t& device_ps) {
  constexpr size_t kCount = size_t{128} * 16;
  std::vector<float> a(kCount), b(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<float>((number + i) % 4096);
    b[i] = static_cast<float>(number * 7 % 8192);
  }
  for (const auto& [name, values] : {std::pair("a", &a), {"b", &b}}) {
    if (nrt_tensor_write(model.tensors[name], values->data(), 0, kCount * sizeof(float))) {
      return nrt_open_last_error();
    }
  }
  if (model.run() != NRT_SUCCESS) return nrt_open_last_error();
  const std::vector<float> sum = model.floats("sum");
  for (size_t i = 0; i < kCount; ++i) {
    if (sum[i] == a[i] + b[i]) continue;
    return "execution " + std::to_string(number) + ", element " + std::to_string(i) + ": found " +
           std::to_string(sum[i]) + ", expected " + std::to_string(a[i] + b[i]);
  }
  nrt_open_execution_report_t report{};
  report.size = sizeof(report);
  if (nrt_open_get_execution_report(model.model, &report)) return nrt_open_last_error();
  device_ps = report.device_ps;
  return "";
}

bool compute() {
  if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS) return false;
  Loaded model(small_add());
  uint64_t right = 0, expected = 0;
  // The first execution also points the rings at the tensors.
  for (;; ++right) {
    uint64_t device_ps = 0;
    std::string wrong = add(model, right, device_ps);
    if (right == 1) {
      expected = device_ps;
      say("ready");
    } else if (wrong.empty() && right > 1 && device_ps != expected) {
      wrong = "execution " + std::to_string(right) + " took " + std::to_string(device_ps) +
              " ps, expected " + std::to_string(expected);
    }
    if (!wrong.empty()) {
      say(wrong);
      return false;
    }
    pollfd asked{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&asked, 1, 0) != 1) continue;
    std::string line;
    if (!std::getline(std::cin, line)) return true;
    say(std::to_string(right + 1));
  }
}

bool is_uninitialised() {
  nrt_tensor_t* tensor = nullptr;
  nrt_model_t* model = nullptr;
  const uint8_t byte = 0;
  const bool told =
      nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &tensor) == NRT_UNINITIALIZED &&
      nrt_load(&byte, 1, 0, 1, &model) == NRT_UNINITIALIZED &&
      nrt_execute(nullptr, nullptr, nullptr) == NRT_UNINITIALIZED;
  nrt_close();
  return told;
}

}  // namespace
}  // namespace neuron::test

int main(int argc, char** argv) {
  const std::string command = argc == 2 ? argv[1] : "";
  if (command == "fresh") return neuron::test::is_uninitialised() ? 0 : 1;
  if (command == "neighbour" && neuron::test::compute()) return 0;
  if (command != "peer" && command != "neighbour") return 2;
  if (command == "peer" && neuron::test::serve()) return 0;
  neuron::test::say(nrt_open_last_error());
  return 1;
}
