// SPDX-License-Identifier: Apache-2.0
// Doorbells of clients whose programs go on and on, and of their neighbours.
#include "driver/emulator/transport/shared/doorbells.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "driver/base/thread_sanitizer.h"
#include "driver/emulator/service/error.h"
#include "hw/address_map.h"
#include "hw/control.h"
#include "tests/support/eventually.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::transport {
namespace {

using Clock = std::chrono::steady_clock;

// How long a program runs when nobody lets it end, and what counts as soon beside it.
constexpr std::chrono::seconds kLong{20}, kSoon{5};
constexpr uint64_t kSemaphores = NEURON_V2_CORE_WINDOW(0) + NEURON_CORE_SEMAPHORES;

double seconds_of(const std::function<void()>& what) {
  const auto start = Clock::now();
  what();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A connection as far as doorbells know it, and the client behind it.
class Client {
 public:
  Client(service::Instance& instance, const service::Client& who) : instance_(instance) {
    EXPECT_EQ(instance.open(0, O_RDWR, who, &session_), 0) << service::last_error();
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets_), 0);
    bell_ = Doorbell::create(*session_, sockets_[0]);
    if (bell_ == nullptr) {
      ADD_FAILURE() << service::last_error();
      return;
    }
    void* page = ::mmap(nullptr, wire::kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                        bell_->page_file(), 0);
    EXPECT_NE(page, MAP_FAILED);
    page_ = static_cast<wire::RingPage*>(page);
  }
  ~Client() {
    ::munmap(page_, wire::kRingBytes);
    bell_.reset();
    EXPECT_EQ(instance_.close(session_), 0);
    for (const int socket : sockets_) ::close(socket);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Doorbell& bell() { return *bell_; }
  void post(uint64_t offset, uint32_t flags) {
    wire::Slot& slot = page_->slots[0];
    slot.flags = flags;
    slot.offset = offset;
    slot.value = 1;
    base::hand_to_other_processes();
    slot.posted.store(++number_);
    ring();
  }
  void ring() {
    page_->posts.fetch_add(1);
    if (page_->daemon_sleeps.load() == 0) return;
    const uint64_t one = 1;
    EXPECT_EQ(::write(bell_->event(), &one, sizeof(one)), 8);
  }
  // Puts writes of registers at these offsets of BAR 0 into the next entry; `count`: what it says.
  void put(const std::vector<uint64_t>& offsets, uint32_t count) {
    neuron_ioctl_device_info info = {};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DEVICE_INFO, &info), 0) << service::last_error();
    wire::PostedWrites& entry = page_->written[page_->posted.load() % wire::kPosts];
    entry.count = count;
    for (size_t i = 0; i < offsets.size(); ++i) {
      entry.writes[i] = {info.bar_address[0] + offsets[i], static_cast<uint32_t>(i), 0};
    }
    base::hand_to_other_processes();
    page_->posted.fetch_add(1);
  }
  bool carried(uint32_t count) {
    const bool seen = test::eventually([&] { return page_->carried.load() == count; }, kSoon);
    base::take_from_other_processes();
    return seen;
  }
  wire::RingPage& page() { return *page_; }
  // Launches a program.
  void launch() { post(kSemaphores + NEURON_SEM_BLOCK_INC, wire::kFlagWrite | wire::kFlagInline); }
  // Whether a register is read in time.
  bool reads() {
    post(kSemaphores + NEURON_SEM_BLOCK_READ, 0);
    return test::eventually([&] { return page_->slots[0].answered.load() == number_; }, kSoon);
  }

 private:
  service::Instance& instance_;
  service::Session* session_ = nullptr;
  int sockets_[2] = {-1, -1};
  std::unique_ptr<Doorbell> bell_;
  wire::RingPage* page_ = nullptr;
  uint32_t number_ = 0;
};

// What clients post without waiting for an answer.
class PostedWrites : public service::ServiceTest {
 protected:
  static constexpr uint64_t kFirst = 0x2610030, kSecond = 0x2620030;

  void SetUp() override {
    ServiceTest::SetUp();
    doorbells_ = Doorbells::create();
    ASSERT_NE(doorbells_, nullptr) << service::last_error();
    client_ = std::make_unique<Client>(*instance_, service::Client{1001, 1, 2});
    ASSERT_TRUE(doorbells_->add(client_->bell()));
    behaviour_.record = true;
  }
  void TearDown() override {
    doorbells_->remove(client_->bell());
    client_.reset();
    doorbells_.reset();
  }

  std::unique_ptr<Doorbells> doorbells_;
  std::unique_ptr<Client> client_;
};

TEST_F(PostedWrites, AreCarriedOutInTheirOrderAlsoRoundTheEndOfTheRing) {
  std::vector<uint64_t> expected;
  for (uint32_t i = 0; i < 3 * wire::kPosts / 2; ++i) {
    const uint64_t last = i % 2 == 0 ? kFirst : kSecond;
    client_->put({kSecond, kFirst, last}, 3);
    expected.insert(expected.end(), {kSecond, kFirst, last});
    // Some one by one, some together.
    if (i % 5 != 0) client_->ring();
    if (i % 20 == 19) {
      ASSERT_TRUE(client_->carried(i + 1)) << i;
    }
  }
  client_->ring();
  ASSERT_TRUE(client_->carried(3 * wire::kPosts / 2));
  EXPECT_EQ(behaviour_.writes, expected);
  EXPECT_EQ(client_->page().refused.load(), 0u);
}

TEST_F(PostedWrites, ThatTheClientMayNotMakeAreRefusedAsAWholeAndCountedAndTheNextOnesAreMade) {
  client_->put({kFirst, NEURON_V2_MISC_RAM + NEURON_FW_TRIGGER}, 2);
  client_->put({kFirst}, 0);
  client_->put({kFirst, kFirst, kFirst}, wire::PostedWrites::kMost + 1);
  client_->put({kSecond}, 1);
  client_->ring();
  ASSERT_TRUE(client_->carried(4));
  EXPECT_EQ(behaviour_.writes, (std::vector<uint64_t>{kSecond}));
  EXPECT_EQ(client_->page().refused.load(), 3u);
  EXPECT_EQ(client_->page().refused_last, 2u);
  EXPECT_EQ(client_->page().result, -EINVAL);
}

TEST_F(PostedWrites, OfAClientThatSaysToHaveMoreThanThereIsRoomForKeepNobodyWaiting) {
  Client neighbour(*instance_, {1002, 2, 3});
  ASSERT_TRUE(doorbells_->add(neighbour.bell()));
  client_->page().posted.store(0x80000000u);
  client_->ring();
  for (int i = 0; i < 100; ++i) {
    client_->ring();
    EXPECT_TRUE(neighbour.reads()) << i;
  }
  EXPECT_EQ(behaviour_.writes, std::vector<uint64_t>{});
  doorbells_->remove(neighbour.bell());
}

class LongPrograms : public service::ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    // As one instruction does: it looks at no deadline.
    behaviour_.run = [this] {
      std::unique_lock lock(mutex_);
      ++begun_;
      changed_.wait_for(lock, kLong, [this] { return ended_; });
      return chip::RunResult::kQuiescent;
    };
    doorbells_ = Doorbells::create();
    ASSERT_NE(doorbells_, nullptr) << service::last_error();
  }
  void TearDown() override {
    end_programs();
    for (const auto& client : clients_) doorbells_->remove(client->bell());
    clients_.clear();
    doorbells_.reset();
  }
  Client& connect(const service::Client& who) {
    clients_.push_back(std::make_unique<Client>(*instance_, who));
    EXPECT_TRUE(doorbells_->add(clients_.back()->bell()));
    return *clients_.back();
  }
  static service::Client process(int number, uint32_t user = 1) {
    return {1000 + number, user, static_cast<uint64_t>(number) + 1};
  }
  int begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  bool have_begun(int count) {
    return test::eventually([&] { return begun() >= count; }, kSoon);
  }
  void end_programs() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

  std::unique_ptr<Doorbells> doorbells_;
  std::vector<std::unique_ptr<Client>> clients_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0;
  bool ended_ = false;
};

TEST_F(LongPrograms, OfFiveClientsKeepNeitherANeighbourNorThoseWhoComeAndGoWaiting) {
  Client& neighbour = connect(process(0, 2));
  for (int i = 1; i <= 5; ++i) connect(process(i)).launch();
  EXPECT_TRUE(have_begun(5)) << begun();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(neighbour.reads()) << i;
  Client newcomer(*instance_, process(9));
  EXPECT_LT(seconds_of([&] { EXPECT_TRUE(doorbells_->add(newcomer.bell())); }), kSoon.count());
  EXPECT_TRUE(newcomer.reads());
  EXPECT_LT(seconds_of([&] { doorbells_->remove(newcomer.bell()); }), kSoon.count());
  // Also while nothing else happens, after which everybody sleeps.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_TRUE(neighbour.reads());
}

TEST_F(LongPrograms, AreWaitedForByWhoeverRemovesTheirOwnDoorbell) {
  Client& client = connect(process(1));
  client.launch();
  ASSERT_TRUE(have_begun(1));
  doorbells_->retire(client.bell());
  EXPECT_FALSE(Doorbells::await(client.bell(), std::chrono::milliseconds(50)));
  end_programs();
  EXPECT_TRUE(Doorbells::await(client.bell(), kSoon));
}

// As many as make each processor's threads busy, and the watcher's and its deputies' too.
TEST_F(LongPrograms, OfOneProcessTakeNoMoreThreadsThanItsShareAndHaveTheirTurnNevertheless) {
  constexpr int kPrograms = 40;
  Client& neighbour = connect(process(0, 2));
  Client& sibling = connect(process(2));
  for (int i = 0; i < kPrograms; ++i) connect(process(1)).launch();
  EXPECT_TRUE(have_begun(16)) << begun();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(begun(), 24) << "a quarter of 64, and those that began before they were counted";
  EXPECT_TRUE(neighbour.reads());
  EXPECT_TRUE(sibling.reads());
  end_programs();
  EXPECT_TRUE(have_begun(kPrograms)) << begun();
}

}  // namespace
}  // namespace neuron::transport
