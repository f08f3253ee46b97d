// SPDX-License-Identifier: Apache-2.0
// Puts, signals and waits on windows: over shared memory, over tcp, and over a network that
// reorders packets and must be told of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ccom/communicator/window_port.h"
#include "ccom/transport/fabric_connection.h"
#include "ccom/transport/fabric_provider.h"
#include "tests/support/eventually.h"
#include "tests/unit/ccom/api/job.h"
#include "tests/unit/ccom/api/ranks.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

struct Road {
  const char* name;
  uint32_t flags;
  const char* providers;
};

class OneSided : public testing::TestWithParam<Road> {
 protected:
  static ccom_options_t options() {
    ccom_options_t options = quick_options();
    options.flags = GetParam().flags;
    options.providers = GetParam().providers;
    return options;
  }
};

// A window of a rank, opened with those of the others.
struct Shown {
  Shown(ccom_comm_t* comm, size_t size) : comm(comm), size(size) {
    void* memory = nullptr;
    EXPECT_EQ(ccom_mem_alloc(comm, size, &memory), CCOM_SUCCESS) << ccom_last_error();
    data = static_cast<uint8_t*>(memory);
    std::fill_n(data, size, 0xee);
    EXPECT_EQ(ccom_window_open(comm, data, size, &number), CCOM_SUCCESS) << ccom_last_error();
  }
  ~Shown() {
    if (comm == nullptr) return;  // the test has closed it
    EXPECT_EQ(ccom_window_close(comm, number), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(ccom_mem_free(comm, data), CCOM_SUCCESS) << ccom_last_error();
  }
  ccom_comm_t* comm;
  size_t size;
  uint8_t* data = nullptr;
  uint32_t number = 99;
};

// Each rank has a part of each window. It may be written again once its reader has signalled.
TEST_P(OneSided, APutIsThereWholeForWhoHasWaitedForItsSignalAndNothingElseChanges) {
  constexpr uint32_t kSize = 3;
  constexpr uint64_t kPart = (1u << 20) + 64;
  const uint64_t lengths[] = {0, 1, 8192, 8193, (1u << 20) + 7};
  Ranks ranks(kSize, options());
  ranks.each([&](ccom_comm_t* comm, uint32_t me) {
    Shown window(comm, kSize * kPart);
    std::vector<uint8_t> source(kPart);
    uint32_t round = 0;
    for (const uint64_t length : lengths) {
      ++round;
      for (uint32_t to = 0; to < kSize; ++to) {
        for (uint64_t i = 0; i < length; ++i) {
          source[i] = static_cast<uint8_t>(i * 7 + i / 251 + me * 50 + to * 13 + round);
        }
        ASSERT_EQ(ccom_put(comm, window.number, to, me * kPart + round, source.data(), length, 4),
                  CCOM_SUCCESS)
            << ccom_last_error();
        std::fill_n(source.begin(), length, 0);  // the source is the caller's again
      }
      for (uint32_t from = 0; from < kSize; ++from) {
        ASSERT_EQ(ccom_wait_signal(comm, window.number, from, 4, 1, 0), CCOM_SUCCESS)
            << ccom_last_error();
        const uint8_t* const part = window.data + from * kPart;
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < length; ++i) {
          wrong += part[round + i] !=
                   static_cast<uint8_t>(i * 7 + i / 251 + from * 50 + me * 13 + round);
        }
        EXPECT_EQ(wrong, 0u) << length << " bytes of rank " << from;
        EXPECT_EQ(part[round + length], 0xee) << "behind " << length << " bytes";
        EXPECT_EQ(part[round - 1], 0xee) << "before " << length << " bytes";
        std::fill_n(window.data + from * kPart, kPart, 0xee);
        ASSERT_EQ(ccom_signal(comm, window.number, from, 5), CCOM_SUCCESS) << ccom_last_error();
      }
      for (uint32_t to = 0; to < kSize; ++to) {
        ASSERT_EQ(ccom_wait_signal(comm, window.number, to, 5, 1, 0), CCOM_SUCCESS)
            << ccom_last_error();
      }
    }
  });
}

TEST_P(OneSided, ATargetThatMakesNoCallHoldsNoPutUp) {
  Ranks ranks(2, options());
  std::atomic<bool> put{false};
  ranks.each([&](ccom_comm_t* comm, uint32_t me) {
    Shown window(comm, 2u << 20);
    if (me == 0) {
      const std::vector<uint8_t> source(1u << 20, 7);
      for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(ccom_put(comm, window.number, 1, 11, source.data(), source.size(), 0),
                  CCOM_SUCCESS)
            << ccom_last_error();
      }
      put = true;
    } else {
      ASSERT_TRUE(test::eventually([&] { return put.load(); }));
      ASSERT_EQ(ccom_wait_signal(comm, window.number, 0, 0, 4, 0), CCOM_SUCCESS)
          << ccom_last_error();
      EXPECT_EQ(std::count(window.data, window.data + window.size, 7), 1 << 20);
    }
  });
}

TEST_P(OneSided, SeveralPutsAndOneSignalBehindThemAreSeenTogether) {
  Ranks ranks(2, options());
  ranks.each([&](ccom_comm_t* comm, uint32_t me) {
    Shown window(comm, 100 * 100);
    std::minstd_rand random(5);
    for (uint32_t round = 1; round < 6; ++round) {
      if (me == 0) {
        std::vector<uint32_t> order(100);
        for (uint32_t i = 0; i < 100; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        const std::vector<uint8_t> source(100, static_cast<uint8_t>(round));
        for (const uint32_t i : order) {
          ASSERT_EQ(ccom_put(comm, window.number, 1, i * 100, source.data(), 100, CCOM_NO_SIGNAL),
                    CCOM_SUCCESS)
              << ccom_last_error();
        }
        ASSERT_EQ(ccom_signal(comm, window.number, 1, 31), CCOM_SUCCESS) << ccom_last_error();
        ASSERT_EQ(ccom_wait_signal(comm, window.number, 1, 0, 1, 0), CCOM_SUCCESS)
            << ccom_last_error();
      } else {
        ASSERT_EQ(ccom_wait_signal(comm, window.number, 0, 31, 1, 0), CCOM_SUCCESS)
            << ccom_last_error();
        ASSERT_EQ(std::count(window.data, window.data + window.size, round), 10000);
        ASSERT_EQ(ccom_signal(comm, window.number, 0, 0), CCOM_SUCCESS) << ccom_last_error();
      }
    }
  });
}

TEST_P(OneSided, SignalsAreCountedForEachSourceAndNumberAndAWaitThatEndsTakesNone) {
  Ranks ranks(3, options());
  ranks.each([&](ccom_comm_t* comm, uint32_t me) {
    Shown window(comm, 4096);
    if (me == 1) {
      for (const uint32_t number : {3u, 3u, 9u}) {
        ASSERT_EQ(ccom_signal(comm, window.number, 0, number), CCOM_SUCCESS) << ccom_last_error();
      }
    }
    if (me == 0) {
      ASSERT_EQ(ccom_wait_signal(comm, window.number, 1, 9, 1, 0), CCOM_SUCCESS)
          << ccom_last_error();
      EXPECT_EQ(ccom_wait_signal(comm, window.number, 1, 3, 3, 50), CCOM_TIMEOUT);
      EXPECT_THAT(ccom_last_error(), HasSubstr("waits for signal 3 of rank 1"));
      EXPECT_THAT(ccom_last_error(), HasSubstr("2 of 3 have come"));
      EXPECT_EQ(ccom_wait_signal(comm, window.number, 2, 3, 1, 50), CCOM_TIMEOUT)
          << "those of another rank";
      EXPECT_EQ(ccom_wait_signal(comm, window.number, 1, 9, 1, 50), CCOM_TIMEOUT) << "taken twice";
      EXPECT_EQ(ccom_wait_signal(comm, window.number, 1, 3, 2, 0), CCOM_SUCCESS)
          << ccom_last_error();
      EXPECT_EQ(ccom_status(comm), CCOM_SUCCESS);
    }
  });
}

TEST_P(OneSided, WindowsAreSeparateAndMayBeOpenedAgain) {
  Ranks ranks(2, options());
  ranks.each([&](ccom_comm_t* comm, uint32_t me) {
    const uint8_t one = 1, two = 2;
    for (int round = 0; round < 3; ++round) {
      Shown first(comm, 4096);
      Shown second(comm, 4096);
      ASSERT_NE(first.number, second.number);
      if (me == 0) {
        ASSERT_EQ(ccom_put(comm, second.number, 1, 0, &two, 1, 0), CCOM_SUCCESS);
        ASSERT_EQ(ccom_put(comm, first.number, 1, 0, &one, 1, 0), CCOM_SUCCESS);
      } else {
        ASSERT_EQ(ccom_wait_signal(comm, first.number, 0, 0, 1, 0), CCOM_SUCCESS);
        EXPECT_EQ(first.data[0], 1);
        ASSERT_EQ(ccom_wait_signal(comm, second.number, 0, 0, 1, 0), CCOM_SUCCESS);
        EXPECT_EQ(second.data[0], 2);
        EXPECT_EQ(ccom_wait_signal(comm, second.number, 0, 0, 1, 20), CCOM_TIMEOUT);
      }
    }
    EXPECT_EQ(ccom_put(comm, 0, 1, 0, &one, 1, 0), CCOM_INVALID) << "a window that was closed";
    EXPECT_THAT(ccom_last_error(), HasSubstr("there is no window 0"));
  });
}

TEST_P(OneSided, WrongArgumentsAreNamedAndEndNothing) {
  Ranks ranks(2, options());
  ranks.each([&](ccom_comm_t* comm, uint32_t me) {
    Shown window(comm, me == 0 ? 4096 : 8192);
    const std::vector<uint8_t> source(8192);
    EXPECT_EQ(ccom_put(comm, window.number, 0, 4095, source.data(), 2, 0), CCOM_INVALID);
    EXPECT_THAT(ccom_last_error(),
                HasSubstr("2 bytes at 4095 do not fit into the window of rank 0"));
    EXPECT_EQ(ccom_put(comm, window.number, 1, ~uint64_t{0}, source.data(), 2, 0), CCOM_INVALID);
    EXPECT_EQ(ccom_put(comm, window.number, 2, 0, source.data(), 2, 0), CCOM_INVALID);
    EXPECT_EQ(ccom_put(comm, window.number, 0, 0, nullptr, 2, 0), CCOM_INVALID);
    EXPECT_EQ(ccom_put(comm, window.number, 0, 0, source.data(), 2, CCOM_SIGNALS), CCOM_INVALID);
    EXPECT_EQ(ccom_signal(comm, window.number, 0, CCOM_NO_SIGNAL), CCOM_INVALID);
    EXPECT_EQ(ccom_wait_signal(comm, window.number, 0, CCOM_SIGNALS, 1, 10), CCOM_INVALID);
    EXPECT_EQ(ccom_wait_signal(comm, window.number + 1, 0, 0, 1, 10), CCOM_INVALID);
    uint32_t number = 0;
    std::vector<uint8_t> elsewhere(4096);
    // Rank 0 alone is wrong, and both are told.
    EXPECT_EQ(ccom_window_open(comm, me == 0 ? elsewhere.data() : window.data, 4096, &number),
              CCOM_INVALID);
    EXPECT_THAT(ccom_last_error(), HasSubstr("are neither its ccom_mem_alloc memory"));
    EXPECT_THAT(ccom_last_error(), HasSubstr("rank 0"));
    EXPECT_EQ(ccom_put(comm, window.number, 1 - me, 0, source.data(), 4096, 1), CCOM_SUCCESS)
        << ccom_last_error();
    EXPECT_EQ(ccom_wait_signal(comm, window.number, 1 - me, 1, 1, 0), CCOM_SUCCESS)
        << ccom_last_error();
  });
}

TEST_P(OneSided, RanksAtDifferentCallsAreBothToldWhichAndGoOn) {
  Ranks ranks(2, options());
  ranks.each([](ccom_comm_t* comm, uint32_t me) {
    Shown window(comm, 4096);
    const auto opens = [&] {
      uint32_t other = 99;
      const ccom_status_t status = ccom_window_open(comm, window.data, 4096, &other);
      EXPECT_EQ(other, 99u);
      return status;
    };
    const auto splits = [&] {
      ccom_comm_t* part = nullptr;
      return ccom_split(comm, 0, 0, &part);
    };
    const auto told = [&](ccom_status_t status, const char* one, const char* other) {
      EXPECT_EQ(status, CCOM_MISMATCH);
      for (const char* part : {"rank 0 (host ", "rank 1 (host ", one, other}) {
        EXPECT_THAT(ccom_last_error(), HasSubstr(part));
      }
    };
    told(me == 0 ? opens() : ccom_suspend(comm), "ccom_window_open", "ccom_suspend");
    told(me == 1 ? opens() : splits(), "ccom_window_open", "ccom_split");
    told(me == 0 ? splits() : ccom_window_close(comm, window.number), "ccom_split",
         "ccom_window_close");
    Shown another(comm, 4096);
    EXPECT_EQ(another.number, window.number + 1);
    const uint8_t one = 1;
    for (const Shown* each : {&window, &another}) {
      ASSERT_EQ(ccom_put(comm, each->number, 1 - me, 0, &one, 1, 0), CCOM_SUCCESS)
          << ccom_last_error();
      ASSERT_EQ(ccom_wait_signal(comm, each->number, 1 - me, 0, 1, 0), CCOM_SUCCESS)
          << ccom_last_error();
      EXPECT_EQ(each->data[0], 1);
    }
  });
}

TEST_P(OneSided, AWindowWhoseCloseFailsStaysOpen) {
  Ranks ranks(2, options());
  ranks.each([](ccom_comm_t* comm, uint32_t me) {
    Shown first(comm, 4096), second(comm, 4096);
    EXPECT_EQ(ccom_window_close(comm, me == 0 ? first.number : second.number), CCOM_MISMATCH);
    EXPECT_THAT(ccom_last_error(), HasSubstr(ccom::format("window {}", first.number)));
    EXPECT_THAT(ccom_last_error(), HasSubstr(ccom::format("window {}", second.number)));
    const uint8_t one = 1;
    for (const Shown* each : {&first, &second}) {
      EXPECT_EQ(ccom_mem_free(comm, each->data), CCOM_INVALID);
      ASSERT_EQ(ccom_put(comm, each->number, 1 - me, 0, &one, 1, 0), CCOM_SUCCESS)
          << ccom_last_error();
      ASSERT_EQ(ccom_wait_signal(comm, each->number, 1 - me, 0, 1, 0), CCOM_SUCCESS)
          << ccom_last_error();
    }
  });
}

TEST_P(OneSided, MemoryThatAnOpenWindowShowsIsNotFreed) {
  Ranks ranks(2, options());
  ranks.each([](ccom_comm_t* comm, uint32_t) {
    void *whole = nullptr, *beside = nullptr;
    ASSERT_EQ(ccom_mem_alloc(comm, 20000, &whole), CCOM_SUCCESS);
    ASSERT_EQ(ccom_mem_alloc(comm, 20000, &beside), CCOM_SUCCESS);
    uint32_t window = 0, empty = 0;
    // A part of the block that does not begin where the block begins.
    ASSERT_EQ(ccom_window_open(comm, static_cast<char*>(whole) + 5000, 100, &window), CCOM_SUCCESS)
        << ccom_last_error();
    ASSERT_EQ(ccom_window_open(comm, whole, 0, &empty), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(ccom_mem_free(comm, whole), CCOM_INVALID);
    EXPECT_THAT(ccom_last_error(), HasSubstr(ccom::format("window {} shows", window)));
    EXPECT_EQ(ccom_mem_free(comm, beside), CCOM_SUCCESS) << ccom_last_error();
    ASSERT_EQ(ccom_window_close(comm, window), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(ccom_mem_free(comm, whole), CCOM_SUCCESS) << ccom_last_error();
    ASSERT_EQ(ccom_window_close(comm, empty), CCOM_SUCCESS) << ccom_last_error();
  });
}

// Another rank may not know of the failure yet, and still write.
TEST_P(OneSided, WhatAWindowHasShownIsNotGivenAgainAfterAFailure) {
  Ranks ranks(2, options());
  ranks.each([](ccom_comm_t* comm, uint32_t me) {
    const auto allocated = [&] {
      ccom_memory_t memory = {};
      memory.size_of = sizeof(memory);
      EXPECT_EQ(ccom_memory(comm, &memory), CCOM_SUCCESS);
      return memory.allocated;
    };
    Shown window(comm, 4096);
    const uint64_t before = allocated();
    if (me == 0) ccom_abort(comm);
    ASSERT_TRUE(test::eventually([&] { return ccom_status(comm) != CCOM_SUCCESS; }));
    ASSERT_EQ(ccom_window_close(comm, window.number), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(ccom_window_close(comm, window.number), CCOM_INVALID);
    ASSERT_EQ(ccom_mem_free(comm, window.data), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(ccom_mem_free(comm, window.data), CCOM_INVALID) << "freed twice";
    EXPECT_EQ(allocated(), before) << "the signals and what was shown";
    window.comm = nullptr;
  });
}

INSTANTIATE_TEST_SUITE_P(Over, OneSided,
                         testing::Values(Road{"SharedMemory", 0, nullptr},
                                         Road{"Tcp", CCOM_FLAG_NO_SHARED_MEMORY, "tcp"},
                                         Road{"RoughNetwork", CCOM_FLAG_NO_SHARED_MEMORY,
                                              "rough+tcp"}),
                         [](const auto& info) { return std::string(info.param.name); });

class OneSidedProcesses : public testing::TestWithParam<uint32_t> {};

TEST_P(OneSidedProcesses, ThatPutOrWaitAreToldWhoWasKilled) {
  Job job(
      3, 20000,
      [](ccom_comm_t* comm, uint32_t rank, int report) {
        void* memory = nullptr;
        uint32_t window = 0;
        ccom_status_t status = ccom_mem_alloc(comm, 4096, &memory);
        if (status == CCOM_SUCCESS) status = ccom_window_open(comm, memory, 4096, &window);
        Job::tell(report, rank, status);
        const std::vector<uint8_t> source(4096, 1);
        while (rank == 0 && status == CCOM_SUCCESS) {
          status = ccom_put(comm, window, 2, 0, source.data(), source.size(), 0);
        }
        if (rank == 1) status = ccom_wait_signal(comm, window, 2, 0, 1, 0);
        if (rank != 2) Job::tell(report, rank, status);
        poll(nullptr, 0, 20000);
      },
      GetParam());
  Report said;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    ASSERT_EQ(said.status, CCOM_SUCCESS) << said.sentence;
  }
  kill(job.child(2), SIGKILL);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(10000)));
    EXPECT_EQ(said.status, CCOM_RANK_DEAD) << said.rank << ": " << said.sentence;
    EXPECT_THAT(said.sentence, HasSubstr("rank 2 (host ")) << said.rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Over, OneSidedProcesses, testing::Values(0u, CCOM_FLAG_NO_SHARED_MEMORY));

// Ports of ranks that are parts of one test.
std::vector<std::unique_ptr<NetworkPort>> ports_of(uint32_t ranks) {
  std::vector<std::unique_ptr<FabricEndpoint>> endpoints;
  std::vector<std::vector<std::byte>> addresses;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto endpoint = open_provider("tcp;ofi_rxm", "127.0.0.1");
    EXPECT_TRUE(endpoint) << endpoint.error().sentence;
    addresses.push_back((*endpoint)->address());
    endpoints.push_back(std::move(*endpoint));
  }
  std::vector<std::unique_ptr<NetworkPort>> ports;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto port =
        NetworkPort::open(rank, std::move(endpoints[rank]), addresses, std::vector<PortKey>(ranks));
    EXPECT_TRUE(port) << port.error().sentence;
    ports.push_back(std::move(*port));
  }
  return ports;
}

// The window of a rank, of one page between two others, and what has happened to it.
struct PortOfATest {
  using OnSignal = std::function<void(Rank source, uint32_t signal)>;

  explicit PortOfATest(std::unique_ptr<NetworkPort> port, OnSignal on_signal = nullptr) {
    WindowPort::Place place;
    place.data = memory.data() + 4096;
    place.bytes = 4096;
    place.count = [this, on_signal](Rank source, uint32_t signal) {
      ++counted;
      if (on_signal) on_signal(source, signal);
    };
    place.fail = [this](const Error& error) { failure.note(error); };
    auto opened = WindowPort::open(std::move(port), std::move(place), failure);
    EXPECT_TRUE(opened) << opened.error().sentence;
    window = std::move(*opened);
  }

  std::vector<std::byte> memory = std::vector<std::byte>(3 * 4096);
  FirstFailure failure;
  std::atomic<uint32_t> counted{0};
  std::unique_ptr<WindowPort> window;
};

// As it is sent.
struct Header {
  uint64_t offset = 0, bytes = 0;
  uint32_t signal = 0, reserved = 0;
};

// A peer that does not keep to the protocol: it must not write outside of the window. It sends its
// data behind each header, as if that were right.
TEST(WindowPorts, AHeaderThatDoesNotFitEndsTheWindowAndWhatFollowsItWritesNothing) {
  constexpr uint64_t kFar = ~uint64_t{0};
  constexpr uint32_t kNone = CCOM_NO_SIGNAL;
  const Header headers[] = {{4096, 1, 0, 0},      {4097, 0, 0, 0},
                            {1, 4096, kNone, 0},  {0, 8192, 0, 0},
                            {kFar, 2, 0, 0},      {kFar - 4095, 4096, kNone, 0},
                            {0, kFar, 0, 0},      {0, 8, CCOM_SIGNALS, 0},
                            {0, 8, kNone - 1, 0}, {0, 0, CCOM_SIGNALS, 0}};
  for (const Header& header : headers) {
    auto ports = ports_of(2);
    PortOfATest own(std::move(ports[0]));
    NetworkPort& hostile = *ports[1];
    const Signature signature;
    hostile.expect(signature);
    const std::vector<std::byte> data(std::clamp<uint64_t>(header.bytes, 1, 8192), std::byte{0x66});
    uint64_t number = 0;
    const auto send = [&](const void* message, uint64_t bytes) {
      return test::eventually([&] {
        hostile.progress();
        return hostile.connection(0).send({0, 0, 0, number}, static_cast<const std::byte*>(message),
                                          bytes, signature) == Outcome::kDone;
      });
    };
    ASSERT_TRUE(send(&header, sizeof(header)));
    for (number = 1; number < 4; ++number) ASSERT_TRUE(send(data.data(), data.size()));
    ASSERT_TRUE(test::eventually([&] {
      hostile.progress();
      return own.failure.there() && !hostile.busy();
    }));
    for (int look = 0; look < 50; ++look) {
      hostile.progress();
      own.window->advance();
    }
    EXPECT_EQ(own.failure.status(), CCOM_SYSTEM);
    EXPECT_THAT(own.failure.error().sentence,
                HasSubstr("into the window of rank 0, which has 4096"));
    EXPECT_EQ(own.counted, 0u);
    EXPECT_EQ(std::count(own.memory.begin(), own.memory.end(), std::byte{0}), 3 * 4096)
        << header.offset << " " << header.bytes << " " << header.signal;
  }
}

// Rank 2 takes nothing, while rank 1 signals all the time.
TEST(WindowPorts, APutEndsAfterItsTimeoutWithoutProgressOfItsTargetWhateverOthersSend) {
  auto ports = ports_of(3);
  PortOfATest own(std::move(ports[0])), other(std::move(ports[1]));
  std::atomic<bool> over{false};
  std::thread chatter([&] {
    // bounded: so that a put that never ends shows as a late one
    for (int i = 0; i < 4000 && !over; ++i) {
      if (!other.window->put(0, 0, nullptr, 0, 3, milliseconds(1000))) break;
      poll(nullptr, 0, 5);
    }
  });
  EXPECT_TRUE(test::eventually([&] { return own.counted > 10; }));
  const std::vector<std::byte> source(64u << 20);
  const auto begun = std::chrono::steady_clock::now();
  const auto done = own.window->put(2, 7, source.data(), source.size(), 0, milliseconds(400));
  const auto took = std::chrono::steady_clock::now() - begun;
  over = true;
  chatter.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().status, CCOM_TIMEOUT);
  EXPECT_THAT(done.error().sentence, HasSubstr("rank 2 has taken nothing from "));
  EXPECT_THAT(done.error().sentence, HasSubstr(" for 400 ms: 67108864 of the 67108864 bytes at 7"));
  EXPECT_GE(took, milliseconds(400));
  EXPECT_LT(took, milliseconds(15000));
  const auto again = own.window->put(1, 0, nullptr, 0, 0, milliseconds(400));
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().sentence, HasSubstr("was closed by a failure"));
}

// Rank 1 takes a piece from time to time: together they need longer than the timeout.
TEST(WindowPorts, APutThatItsTargetTakesSlowlyGoesOn) {
  constexpr uint64_t kPiece = 1u << 20, kPieces = 8;
  auto ports = ports_of(2);
  PortOfATest own(std::move(ports[0]));
  NetworkPort& slow = *ports[1];
  std::vector<std::byte> received(kPieces * kPiece);
  std::thread takes([&] {
    slow.expect(Signature());
    FabricConnection& from = slow.connection(0);
    Header header;
    for (uint64_t number = 0; number <= kPieces; ++number) {
      auto* const place = number == 0 ? reinterpret_cast<std::byte*>(&header)
                                      : received.data() + (number - 1) * kPiece;
      const uint64_t bytes = number == 0 ? sizeof(header) : kPiece;
      EXPECT_EQ(from.grant({0, 0, 0, number}, place, bytes), Outcome::kDone);
      Arrival arrival;
      EXPECT_TRUE(test::eventually([&] {
        slow.progress();
        return from.arrived({0, 0, 0, number}, arrival) == Outcome::kDone;
      })) << number;
      from.consumed({0, 0, 0, number});
      poll(nullptr, 0, 300);
    }
    EXPECT_EQ(header.bytes, kPieces * kPiece);
  });
  std::vector<std::byte> source(kPieces * kPiece, std::byte{7});
  const auto done =
      own.window->put(1, 0, source.data(), source.size(), CCOM_NO_SIGNAL, milliseconds(1500));
  EXPECT_TRUE(done) << done.error().sentence;
  takes.join();
  EXPECT_EQ(received, source);
}

TEST(WindowPorts, AProcessWithoutMemoryLosesItsWindowAndSaysSo) {
  auto ports = ports_of(2);
  PortOfATest own(std::move(ports[0]), [](Rank, uint32_t) { throw std::bad_alloc(); });
  PortOfATest other(std::move(ports[1]));
  EXPECT_TRUE(other.window->put(0, 0, nullptr, 0, 3, milliseconds(20000)));
  ASSERT_TRUE(test::eventually([&] { return own.failure.there(); }));
  EXPECT_EQ(own.failure.status(), CCOM_RESOURCE);
  EXPECT_THAT(own.failure.error().sentence, HasSubstr("rank 0 has no memory left"));
  EXPECT_FALSE(own.window->put(1, 0, nullptr, 0, 3, milliseconds(20000)));
}

// The put itself makes the look at the network that throws.
TEST(WindowPorts, APutThatRunsOutOfMemoryLeavesNothingThatReadsItsSource) {
  auto ports = ports_of(3);
  PortOfATest own(std::move(ports[0]), [me = std::this_thread::get_id()](Rank, uint32_t) {
    if (std::this_thread::get_id() == me) throw std::bad_alloc();
  });
  PortOfATest other(std::move(ports[1]));
  std::atomic<bool> over{false};
  std::thread chatter([&] {
    for (int i = 0; i < 4000 && !over; ++i) {
      if (!other.window->put(0, 0, nullptr, 0, 3, milliseconds(1000))) break;
      poll(nullptr, 0, 5);
    }
  });
  // Rank 2 takes nothing, so the put lasts until the signals of rank 1 throw.
  const std::vector<std::byte> source(64u << 20);
  const auto done = own.window->put(2, 0, source.data(), source.size(), 0, milliseconds(20000));
  over = true;
  chatter.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().status, CCOM_RESOURCE) << done.error().sentence;
  EXPECT_FALSE(own.window->put(1, 0, nullptr, 0, 3, milliseconds(400))) << "it is closed";
}

}  // namespace
}  // namespace neuron::ccom
