// SPDX-License-Identifier: Apache-2.0
// nrt_async_sendrecv_*: transfers between tensors of two cores, in one process and between two.
#include <arpa/inet.h>
#include <nrt/nrt_async_sendrecv.h>
#include <sys/socket.h>

#include <array>

#include "runtime/send_receive/wire.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

constexpr const char* kHere = "127.0.0.1";
using Comm = nrt_async_sendrecv_comm_t;
using Request = nrt_async_sendrecv_request_t;

class SendReceive : public RuntimeTest {
 protected:
  SendReceive()
      : on_("NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED", "1"),
        port_("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT", std::to_string(free_port(8)).c_str()) {}

  static Comm* connect(int peer, int core) {
    Comm* comm = nullptr;
    EXPECT_EQ(nrt_async_sendrecv_connect(kHere, peer, core, &comm), NRT_SUCCESS)
        << nrt_open_last_error();
    return comm;
  }
  static Comm* accept(int peer, int core) {
    Comm* comm = nullptr;
    EXPECT_EQ(nrt_async_sendrecv_accept(kHere, peer, core, &comm), NRT_SUCCESS)
        << nrt_open_last_error();
    return comm;
  }
  // The first status but success, or success when the connection stands.
  static NRT_STATUS await(Comm* comm) {
    NRT_STATUS status = NRT_SUCCESS;
    bool done = false;
    EXPECT_TRUE(eventually([&] {
      status = nrt_async_sendrecv_test_comm(comm, &done);
      return status != NRT_SUCCESS || done;
    }));
    return status;
  }
  static NRT_STATUS await(Request* request, size_t& size) {
    NRT_STATUS status = NRT_SUCCESS;
    bool done = false;
    EXPECT_TRUE(eventually([&] {
      status = nrt_async_sendrecv_test_request(request, &done, &size);
      return status != NRT_SUCCESS || done;
    }));
    return status;
  }
  static Request* send(nrt_tensor_t* tensor, size_t offset, size_t length, Comm* comm) {
    Request* request = nullptr;
    EXPECT_EQ(nrt_async_sendrecv_send_tensor(tensor, offset, length, comm, &request), NRT_SUCCESS)
        << nrt_open_last_error();
    return request;
  }
  static Request* receive(nrt_tensor_t* tensor, size_t offset, size_t length, Comm* comm) {
    Request* request = nullptr;
    EXPECT_EQ(nrt_async_sendrecv_recv_tensor(tensor, offset, length, comm, &request), NRT_SUCCESS)
        << nrt_open_last_error();
    return request;
  }
  static nrt_tensor_t* filled(size_t size, uint8_t seed, int vnc = 0) {
    nrt_tensor_t* tensor = make_tensor(size, vnc);
    const Bytes bytes = pattern(size, seed);
    EXPECT_EQ(nrt_tensor_write(tensor, bytes.data(), 0, size), NRT_SUCCESS);
    return tensor;
  }

 private:
  Setting on_, port_;
};

// Both cores of this process, and a connection from core 0 to core 1.
class SendReceiveInProcess : public SendReceive {
 protected:
  void SetUp() override {
    SendReceive::SetUp();
    ASSERT_EQ(nrt_async_sendrecv_init(0), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(nrt_async_sendrecv_init(1), NRT_SUCCESS) << nrt_open_last_error();
    to_ = connect(1, 0);
    from_ = accept(0, 1);
    ASSERT_EQ(await(to_), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(await(from_), NRT_SUCCESS) << nrt_open_last_error();
  }
  Comm* to_ = nullptr;
  Comm* from_ = nullptr;
};

TEST_F(SendReceiveInProcess, MessagesArriveInTheirOrderAtAnyOffsetAndAnyLength) {
  nrt_tensor_t* source = filled(10'000, 3, 0);
  nrt_tensor_t* target = filled(10'000, 99, 1);
  const Bytes sent = contents(source);
  Bytes expected = contents(target);
  const std::vector<std::pair<size_t, size_t>> pieces = {
      {0, 1}, {17, 4096}, {5000, 0}, {7001, 2999}};
  std::vector<Request*> requests;
  std::vector<size_t> lengths;
  for (const auto& [offset, length] : pieces) {
    requests.push_back(receive(target, offset, length, from_));
    requests.push_back(send(source, 10'000 - offset - length, length, to_));
    lengths.insert(lengths.end(), {length, length});
    std::copy_n(sent.begin() + static_cast<ptrdiff_t>(10'000 - offset - length), length,
                expected.begin() + static_cast<ptrdiff_t>(offset));
  }
  for (size_t n = 0; n < requests.size(); ++n) {
    size_t size = 12345;
    EXPECT_EQ(await(requests[n], size), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(size, lengths[n]);
    bool done = false;
    EXPECT_EQ(nrt_async_sendrecv_test_request(requests[n], &done, &size), NRT_INVALID_HANDLE)
        << "a request that is done is none any more";
  }
  EXPECT_EQ(contents(target), expected);
  EXPECT_EQ(nrt_async_sendrecv_close(0), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(nrt_async_sendrecv_close(1), NRT_SUCCESS) << nrt_open_last_error();
  nrt_tensor_free(&source);
  nrt_tensor_free(&target);
}

TEST_F(SendReceiveInProcess, AnExecutionBehindAFlushComputesWithWhatWasReceived) {
  Loaded add(small_add(), 1);
  add.fill("a", 1);
  add.fill("b", 2);
  const size_t bytes = 128 * 16 * sizeof(float);
  nrt_tensor_t* source = make_tensor(bytes, 0);
  const std::vector<float> values(128 * 16, 40);
  ASSERT_EQ(nrt_tensor_write(source, values.data(), 0, bytes), NRT_SUCCESS);
  Request* in = receive(add.tensors.at("a"), 0, bytes, from_);
  Request* out = send(source, 0, bytes, to_);
  size_t size = 0;
  ASSERT_EQ(await(in, size), NRT_SUCCESS);
  ASSERT_EQ(await(out, size), NRT_SUCCESS);
  ASSERT_EQ(nrt_async_sendrecv_flush(1), NRT_SUCCESS) << nrt_open_last_error();
  ASSERT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
  std::vector<float> sum(128 * 16);
  ASSERT_EQ(nrt_tensor_read(add.tensors.at("sum"), sum.data(), 0, bytes), NRT_SUCCESS);
  EXPECT_EQ(sum, std::vector<float>(128 * 16, 42));
  nrt_tensor_free(&source);
}

TEST_F(SendReceiveInProcess, AMessageThatIsTooLongFailsOnBothSidesAndTheNextArrives) {
  nrt_tensor_t* source = filled(300'000, 5, 0);
  nrt_tensor_t* target = filled(300'000, 6, 1);
  const Bytes before = contents(target);
  Request* small = receive(target, 0, 1000, from_);
  Request* large = send(source, 0, 300'000, to_);
  size_t size = 7;
  EXPECT_EQ(await(small, size), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("a message of 300000 bytes, and the request has room"
                                               " for 1000"));
  EXPECT_EQ(await(large, size), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("the receiver has room for 1000"));
  EXPECT_EQ(contents(target), before);
  // A shorter one than there is room for is none.
  Request* in = receive(target, 0, 1000, from_);
  Request* out = send(source, 0, 10, to_);
  EXPECT_EQ(await(in, size), NRT_SUCCESS);
  EXPECT_EQ(size, 10u);
  EXPECT_EQ(await(out, size), NRT_SUCCESS);
  EXPECT_EQ(size, 10u);
  nrt_tensor_free(&source);
  nrt_tensor_free(&target);
}

TEST_F(SendReceiveInProcess, MemoryOfATensorLivesAsLongAsItsRequests) {
  nrt_tensor_t* source = filled(1 << 20, 5, 0);
  nrt_tensor_t* target = filled(1 << 20, 6, 1);
  Request* out = send(source, 0, 1 << 20, to_);
  nrt_tensor_free(&source);
  Request* in = receive(target, 0, 1 << 20, from_);
  size_t size = 0;
  EXPECT_EQ(await(out, size), NRT_SUCCESS);
  EXPECT_EQ(await(in, size), NRT_SUCCESS);
  EXPECT_EQ(contents(target), pattern(1 << 20, 5));
  nrt_tensor_free(&target);
}

TEST_F(SendReceiveInProcess, ClosingWithARequestUnderWayIsAFailureAfterWhichTheCoreStaysClosed) {
  nrt_tensor_t* target = filled(100, 6, 1);
  Request* never = receive(target, 0, 100, from_);
  EXPECT_EQ(nrt_async_sendrecv_close(1), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("0 connections that were not made and 1 requests"));
  bool done = false;
  size_t size = 0;
  EXPECT_EQ(nrt_async_sendrecv_test_request(never, &done, &size), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrt_async_sendrecv_test_comm(from_, &done), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrt_async_sendrecv_init(1), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_flush(1), NRT_FAILURE);
  // The other side is told by the connection.
  Request* lost = nullptr;
  EXPECT_TRUE(eventually(
      [&] { return nrt_async_sendrecv_send_tensor(target, 0, 100, to_, &lost) == NRT_FAILURE; }));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("core 1 of 127.0.0.1 (process "));
  nrt_tensor_free(&target);
}

TEST_F(SendReceiveInProcess, RefusesWrongArgumentsAndMoreThanItsLimits) {
  int connections = 0, requests = 0;
  ASSERT_EQ(nrt_async_sendrecv_get_max_num_communicators_per_lnc(&connections), NRT_SUCCESS);
  ASSERT_EQ(nrt_async_sendrecv_get_max_num_pending_request(&requests), NRT_SUCCESS);
  EXPECT_GT(connections, 1);
  EXPECT_GT(requests, 1);
  EXPECT_EQ(nrt_async_sendrecv_get_max_num_pending_request(nullptr), NRT_INVALID);
  EXPECT_EQ(nrt_async_sendrecv_init(0), NRT_FAILURE) << "twice";
  EXPECT_EQ(nrt_async_sendrecv_init(77), NRT_INVALID);
  Comm* comm = nullptr;
  EXPECT_EQ(nrt_async_sendrecv_connect("localhost", 1, 0, &comm), NRT_INVALID) << "a name";
  EXPECT_EQ(nrt_async_sendrecv_connect(nullptr, 1, 0, &comm), NRT_INVALID);
  EXPECT_EQ(nrt_async_sendrecv_connect(kHere, 1, 7, &comm), NRT_FAILURE) << "not open";
  nrt_tensor_t* tensor = filled(64, 1, 0);
  Request* request = nullptr;
  EXPECT_EQ(nrt_async_sendrecv_send_tensor(tensor, 60, 5, to_, &request), NRT_INVALID);
  EXPECT_EQ(nrt_async_sendrecv_recv_tensor(tensor, 0, 5, to_, &request), NRT_INVALID)
      << "this connection sends";
  EXPECT_EQ(nrt_async_sendrecv_send_tensor(tensor, 0, 5, nullptr, &request), NRT_INVALID_HANDLE);
  for (int n = 0; n < requests; ++n) {
    ASSERT_EQ(nrt_async_sendrecv_recv_tensor(tensor, 0, 5, from_, &request), NRT_SUCCESS);
  }
  EXPECT_EQ(nrt_async_sendrecv_recv_tensor(tensor, 0, 5, from_, &request), NRT_RESOURCE);
  for (int n = 1; n < connections; ++n) {
    ASSERT_EQ(nrt_async_sendrecv_accept(kHere, 1, 0, &comm), NRT_SUCCESS);
  }
  EXPECT_EQ(nrt_async_sendrecv_accept(kHere, 1, 0, &comm), NRT_RESOURCE);
  nrt_tensor_free(&tensor);
}

TEST_F(SendReceiveInProcess, WhoeverSpeaksSomethingElseToThePortDisturbsNobody) {
  const int stranger = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(
      static_cast<uint16_t>(std::atoi(getenv("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT")) + 1));
  ::inet_pton(AF_INET, kHere, &address.sin_addr);
  ASSERT_EQ(::connect(stranger, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::string words(500, 'x');
  ASSERT_GT(::send(stranger, words.data(), words.size(), MSG_NOSIGNAL), 0);
  Comm* back = connect(1, 0);
  Comm* to = accept(0, 1);
  EXPECT_EQ(await(back), NRT_SUCCESS);
  EXPECT_EQ(await(to), NRT_SUCCESS);
  char byte = 0;
  EXPECT_LE(::recv(stranger, &byte, 1, 0), 0) << "the stranger is sent away, without an answer";
  ::close(stranger);
}

// A peer that is none of ours, at the port of core 7: it accepts a message and answers something
// that no receiver says.
TEST_F(SendReceive, AnAnswerThatNoReceiverGivesEndsTheConnection) {
  const int base = std::atoi(getenv("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT"));
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(base + 7));
  ::inet_pton(AF_INET, kHere, &address.sin_addr);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  ASSERT_EQ(nrt_async_sendrecv_init(0), NRT_SUCCESS) << nrt_open_last_error();
  nrt_tensor_t* tensor = filled(64, 3);
  using runtime::Frame, runtime::FrameKind;
  constexpr auto kUnknown = static_cast<FrameKind>(9);
  for (const Frame& wrong :
       {Frame{.kind = FrameKind::kReceived, .bytes = UINT64_MAX},
        Frame{.kind = FrameKind::kTooLong, .bytes = 64}, Frame{.kind = kUnknown, .bytes = 64}}) {
    Comm* to = connect(7, 0);
    const int peer = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    ASSERT_GE(peer, 0);
    const runtime::Introduction me{.from_core = 7, .to_core = 0};
    ASSERT_EQ(::send(peer, &me, sizeof(me), MSG_NOSIGNAL), ssize_t{sizeof(me)});
    ASSERT_EQ(await(to), NRT_SUCCESS) << nrt_open_last_error();
    Request* request = send(tensor, 0, 64, to);
    std::array<char, sizeof(me) + sizeof(Frame) + 64> said;
    ASSERT_EQ(::recv(peer, said.data(), said.size(), MSG_WAITALL), std::ssize(said));
    ASSERT_EQ(::send(peer, &wrong, sizeof(wrong), MSG_NOSIGNAL), ssize_t{sizeof(wrong)});
    size_t moved = 0;
    EXPECT_EQ(await(request, moved), NRT_FAILURE);
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("core 7 of 127.0.0.1"));
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("Protocol error"));
    EXPECT_EQ(moved, 0u);
    ::close(peer);
  }
  ::close(listener);
  nrt_tensor_free(&tensor);
}

TEST_F(SendReceive, IsOffUnlessTheEnvironmentTurnsItOn) {
  const Setting off("NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED", "0");
  EXPECT_EQ(nrt_async_sendrecv_init(0), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED=1"));
}

TEST_F(SendReceive, APeerThatDoesNotComeIsATimeoutWithItsName) {
  nrt_close();
  const Setting soon("NEURON_OPEN_COLLECTIVES_TIMEOUT", "1");
  init();
  ASSERT_EQ(nrt_async_sendrecv_init(0), NRT_SUCCESS);
  Comm* to = connect(9, 0);
  Comm* from = accept(8, 0);
  EXPECT_EQ(await(to), NRT_TIMEOUT);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("core 9 of 127.0.0.1 did not come in time"));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("Connection refused"));
  EXPECT_EQ(await(from), NRT_TIMEOUT);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("it has not connected to core 0"));
  EXPECT_EQ(nrt_async_sendrecv_close(0), NRT_SUCCESS) << "what failed before is not under way";
}

// A listener whose queue is full: the system drops what asks for more.
TEST_F(SendReceive, APortThatDoesNotAnswerIsNamedSo) {
  nrt_close();
  const Setting soon("NEURON_OPEN_COLLECTIVES_TIMEOUT", "1");
  init();
  const int base = std::atoi(getenv("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT"));
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(base + 7));
  ::inet_pton(AF_INET, kHere, &address.sin_addr);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 0), 0);
  std::vector<int> waiting;
  for (int n = 0; n < 4; ++n) {
    waiting.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(waiting.back(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  ASSERT_EQ(nrt_async_sendrecv_init(0), NRT_SUCCESS);
  Comm* to = connect(7, 0);
  EXPECT_EQ(await(to), NRT_TIMEOUT);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("does not answer"));
  for (const int socket : waiting) ::close(socket);
  ::close(listener);
}

// The other process is core 1, which sends to core 0 of this host and receives from it.
class SendReceiveBetweenProcesses : public SendReceive {
 protected:
  void SetUp() override {
    SendReceive::SetUp();
    ASSERT_EQ(nrt_async_sendrecv_init(0), NRT_SUCCESS) << nrt_open_last_error();
    peer_.emplace(Words{built("tests/api-other-process"), "peer"});
    from_ = accept(1, 0);
    to_ = connect(1, 0);
    ASSERT_EQ(await(from_), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(await(to_), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(answer(), "ready");
  }
  std::string answer() { return peer_->line(); }
  std::optional<Process> peer_;
  Comm* from_ = nullptr;
  Comm* to_ = nullptr;
};

TEST_F(SendReceiveBetweenProcesses, EightMebibytesArriveWholeInBothDirections) {
  constexpr size_t kBytes = 8 << 20;
  nrt_tensor_t* tensor = filled(kBytes, 1);
  Request* in = receive(tensor, 0, kBytes, from_);
  ASSERT_TRUE(peer_->say("send " + std::to_string(kBytes) + " 77"));
  size_t size = 0;
  ASSERT_EQ(await(in, size), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(size, kBytes);
  EXPECT_EQ(contents(tensor), pattern(kBytes, 77));
  EXPECT_EQ(answer(), std::to_string(kBytes) + " good");
  // Back, before the peer asks for it.
  Request* out = send(tensor, 0, kBytes, to_);
  ASSERT_TRUE(peer_->say("receive " + std::to_string(kBytes) + " 76"));
  ASSERT_EQ(await(out, size), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(answer(), std::to_string(kBytes) + " good");
  peer_->close_input();
  EXPECT_EQ(peer_->wait(), 0);
  EXPECT_EQ(nrt_async_sendrecv_close(0), NRT_SUCCESS) << nrt_open_last_error();
  nrt_tensor_free(&tensor);
}

TEST_F(SendReceiveBetweenProcesses, ADeadPeerIsNamedToWhoeverWaitsForIt) {
  nrt_tensor_t* tensor = filled(4096, 1);
  Request* in = receive(tensor, 0, 4096, from_);
  Request* out = send(tensor, 0, 4096, to_);
  const std::string named = "core 1 of 127.0.0.1 (process " + std::to_string(peer_->pid());
  peer_->kill();
  size_t size = 0;
  EXPECT_EQ(await(in, size), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr(named));
  EXPECT_EQ(await(out, size), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr(named));
  bool done = false;
  EXPECT_EQ(nrt_async_sendrecv_test_comm(from_, &done), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_recv_tensor(tensor, 0, 4096, from_, &in), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr(named));
  EXPECT_EQ(nrt_async_sendrecv_close(0), NRT_SUCCESS) << nrt_open_last_error();
  nrt_tensor_free(&tensor);
}

}  // namespace
}  // namespace neuron::test
