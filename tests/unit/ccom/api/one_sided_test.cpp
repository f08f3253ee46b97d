// SPDX-License-Identifier: Apache-2.0
// Puts, signals and waits on windows: over shared memory, over tcp, and over a network that
// reorders packets and must be told of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
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
    EXPECT_THAT(ccom_last_error(), HasSubstr("are no memory of its ccom_mem_alloc"));
    EXPECT_THAT(ccom_last_error(), HasSubstr("rank 0"));
    EXPECT_EQ(ccom_put(comm, window.number, 1 - me, 0, source.data(), 4096, 1), CCOM_SUCCESS)
        << ccom_last_error();
    EXPECT_EQ(ccom_wait_signal(comm, window.number, 1 - me, 1, 1, 0), CCOM_SUCCESS)
        << ccom_last_error();
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

// A peer that does not keep to the protocol: it must not write outside of the window.
TEST(WindowPorts, AHeaderThatDoesNotFitEndsTheWindowAndWritesNothing) {
  const std::pair<uint64_t, uint64_t> places[] = {
      {4096, 1}, {1, 4096}, {~uint64_t{0}, 2}, {0, ~uint64_t{0}}};
  for (const auto& [offset, bytes] : places) {
    std::vector<std::unique_ptr<FabricEndpoint>> endpoints;
    std::vector<std::vector<std::byte>> addresses;
    for (int rank = 0; rank < 2; ++rank) {
      auto endpoint = open_provider("tcp;ofi_rxm", "127.0.0.1");
      ASSERT_TRUE(endpoint) << endpoint.error().sentence;
      addresses.push_back((*endpoint)->address());
      endpoints.push_back(std::move(*endpoint));
    }
    const std::vector<PortKey> keys(2);  // a rank of the job, so it has them
    auto own = NetworkPort::open(0, std::move(endpoints[0]), addresses, keys);
    auto hostile = NetworkPort::open(1, std::move(endpoints[1]), addresses, keys);
    ASSERT_TRUE(own && hostile);
    std::vector<std::byte> memory(3 * 4096);
    FirstFailure failure;
    std::atomic<uint32_t> counted{0};
    WindowPort::Place place;
    place.data = memory.data() + 4096;
    place.bytes = 4096;
    place.count = [&](Rank, uint32_t) { ++counted; };
    place.fail = [&](const Error& error) { failure.note(error); };
    auto window = WindowPort::open(std::move(*own), std::move(place), failure);
    ASSERT_TRUE(window) << window.error().sentence;
    struct {
      uint64_t offset, bytes;
      uint32_t signal, reserved;
    } const header{offset, bytes, 0, 0};
    const Signature signature;
    (*hostile)->expect(signature);
    const auto* data = reinterpret_cast<const std::byte*>(&header);
    FabricConnection& connection = (*hostile)->connection(0);
    ASSERT_TRUE(test::eventually([&] {
      (*hostile)->progress();
      return connection.send({0, 0, 0, 0}, data, sizeof(header), signature) == Outcome::kDone;
    }));
    ASSERT_TRUE(test::eventually([&] {
      (*hostile)->progress();
      return failure.there();
    }));
    EXPECT_EQ(failure.status(), CCOM_SYSTEM);
    EXPECT_THAT(failure.error().sentence, HasSubstr("into the window of rank 0, which has 4096"));
    EXPECT_EQ(counted, 0u);
    EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{0}), 3 * 4096);
  }
}

}  // namespace
}  // namespace neuron::ccom
