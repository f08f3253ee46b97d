// SPDX-License-Identifier: Apache-2.0
// api-other-process fresh|peer: what tests of the C interface need another process for.
//
//   fresh  has never initialised anything; ends with status 0 if each call says so
//   peer   core 1, connected with core 0 of this host. Says "ready", then answers lines of stdin:
//          send BYTES SEED       sends a pattern; says the bytes that went and "good"
//          receive BYTES SEED    receives; "good" or "wrong": is it the pattern of SEED + 1?
//          wait BYTES SEED       begins to receive; says "waits"
// A failure of the peer is its sentence.
#include <nrt/nrt_async_sendrecv.h>

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
  if (command != "peer") return 2;
  if (neuron::test::serve()) return 0;
  neuron::test::say(nrt_open_last_error());
  return 1;
}
