// SPDX-License-Identifier: Apache-2.0
// The opening of a window against a rank that does not keep to it: what it shows is memory that
// this rank would write to.
#include "ccom/communicator/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "ccom/transport/arena_layout.h"

namespace neuron::ccom {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

const uint64_t kHeap = ArenaLayout::of(2).heap;
constexpr uint64_t kSignalBytes = 2 * CCOM_SIGNALS * sizeof(uint64_t);

// As the ranks send it.
struct Shown {
  uint64_t data, bytes, signals, number;
  uint64_t process = 0, on_device = 0;
};

std::string offer_of(const Shown& shown) {
  std::string says = "ccom_window_open: +";
  says.append(reinterpret_cast<const char*>(&shown), sizeof(shown));
  return says;
}

// Rank 0 of two that share memory opens a window; rank 1 says what the test says.
class Opening {
 public:
  Opening() {
    std::vector<std::shared_ptr<Arena>> arenas;
    for (int rank = 0; rank < 2; ++rank) {
      auto arena = Arena::create(kHeap + (1u << 20));
      EXPECT_TRUE(arena);
      arenas.push_back(std::move(*arena));
    }
    size_ = arenas[1]->size();
    memory_.emplace(std::move(arenas), 0);
  }

  // The end of the memory of rank 1.
  uint64_t end() const { return size_; }
  SharedMemory& memory() { return *memory_; }

  Result<std::unique_ptr<Window>> against(const std::string& offer,
                                          const std::string& then = "ccom_window_open, opened: +") {
    ranks_ = std::move(*Bootstrap::join_all(2));
    std::thread other([&] {
      for (const std::string& says : {offer, then}) {
        const auto all = ranks_[1]->all_gather(bytes_of(says), base::Deadline::after(seconds(20)));
        if (!all) break;
        said_ = std::string(reinterpret_cast<const char*>((*all)[0].data()), (*all)[0].size());
      }
    });
    Window::Parts parts;
    parts.bootstrap = ranks_[0].get();
    parts.memory = &*memory_;
    parts.failure = &failure_;
    parts.open_port = []() -> Result<std::unique_ptr<NetworkPort>> {
      return fail(CCOM_UNSUPPORTED, "the test has no network");
    };
    auto window = Window::open(std::move(parts), nullptr, 0, 3, base::Deadline::after(seconds(20)));
    ranks_[0]->abort(fail(CCOM_ABORTED, "the test is over"));
    other.join();
    return window;
  }
  // What rank 0 said last.
  const std::string& said() const { return said_; }

 private:
  uint64_t size_ = 0;
  std::optional<SharedMemory> memory_;
  FirstFailure failure_;
  std::vector<std::unique_ptr<Bootstrap>> ranks_;
  std::string said_;
};

TEST(Windows, AreOpenedWithTheHighestNumberThatARankWouldGive) {
  Opening opening;
  for (const uint64_t number : {2, 3, 41}) {
    const auto window =
        opening.against(offer_of({kHeap, 4096, opening.end() - kSignalBytes, number}));
    ASSERT_TRUE(window) << window.error().sentence;
    EXPECT_EQ((*window)->number(), std::max<uint64_t>(number, 3));
  }
}

TEST(Windows, OfARankThatShowsWhatIsNotItsMemoryAreRefusedAndItIsTold) {
  Opening opening;
  const uint64_t end = opening.end(), good = kHeap + 8192, far = ~uint64_t{0};
  const Shown lies[] = {
      {0, 4096, good, 0},                        // flight recorder and control words
      {kHeap - 1, 1, good, 0},                   //
      {end, 1, good, 0},                         //
      {end - 4095, 4096, good, 0},               //
      {far, 2, good, 0},                         // wraps around
      {kHeap, far, good, 0},                     //
      {kHeap, end, good, 0},                     //
      {far - 7, 4096, good, 0},                  //
      {kHeap, 4096, 0, 0},                       // signals elsewhere
      {kHeap, 4096, kHeap - 8, 0},               //
      {kHeap, 4096, end - kSignalBytes + 8, 0},  //
      {kHeap, 4096, far - 7, 0},                 //
      {kHeap, 4096, good + 4, 0},                // not aligned
      {0, 0, kHeap + 1, 0},                      //
      {kHeap, 4096, good, UINT32_MAX},           // no number follows
      {kHeap, 4096, good, far},                  //
      {kHeap, 4096, good, 0, 0, 2},              // on what
  };
  for (const Shown& lie : lies) {
    const auto window = opening.against(offer_of(lie));
    ASSERT_FALSE(window) << lie.data << " " << lie.bytes << " " << lie.signals;
    EXPECT_EQ(window.error().status, CCOM_MISMATCH);
    EXPECT_THAT(window.error().sentence, HasSubstr("rank 1 (host "));
    EXPECT_THAT(opening.said(), HasSubstr("ccom_window_open, opened: -"));
  }
  EXPECT_EQ(opening.memory().use().allocated, 0u) << "signals of windows that were not opened";
}

TEST(Windows, ARankThatIsElsewhereOrOfAnotherVersionIsNamedWithWhatBothSay) {
  Opening opening;
  const std::string offer = offer_of({kHeap, 4096, kHeap + 8192, 0});
  const std::string others[] = {"",
                                "ccom_suspend: no operation is under way, and more than 32 bytes",
                                std::string(64, '\0'),
                                offer + "x",
                                offer.substr(0, offer.size() - 1),
                                "ccom_window_open: ",
                                "ccom_window_open: *" + offer.substr(19)};
  for (const std::string& other : others) {
    const auto window = opening.against(other);
    ASSERT_FALSE(window) << other;
    EXPECT_EQ(window.error().status, CCOM_MISMATCH) << window.error().sentence;
    EXPECT_THAT(window.error().sentence, HasSubstr("rank 0 (host "));
    EXPECT_THAT(window.error().sentence, HasSubstr("says \"ccom_window_open: +"));
    EXPECT_THAT(window.error().sentence, HasSubstr("rank 1 (host "));
    EXPECT_EQ(window.error().sentence.find('\0'), std::string::npos);
  }
}

TEST(Windows, OfMemoryOfADeviceNeedANetworkToOtherProcesses) {
  Opening opening;
  const auto window = opening.against(offer_of({0x1000, 4096, kHeap + 8192, 0, 77, 1}));
  ASSERT_FALSE(window);
  EXPECT_EQ(window.error().sentence, "the test has no network");
  EXPECT_THAT(opening.said(), HasSubstr("ccom_window_open, opened: -the test has no network"));
}

TEST(Windows, AreOpenedByAllRanksOrByNone) {
  Opening opening;
  const std::string offer = offer_of({kHeap, 4096, kHeap + 8192, 0});
  const auto window = opening.against(offer, "ccom_window_open, opened: -it has\nno thread");
  ASSERT_FALSE(window);
  EXPECT_THAT(window.error().sentence, HasSubstr("rank 1 (host "));
  EXPECT_THAT(window.error().sentence, HasSubstr("cannot open the window: it has?no thread"));
  EXPECT_EQ(opening.memory().use().allocated, 0u);
}

}  // namespace
}  // namespace neuron::ccom
