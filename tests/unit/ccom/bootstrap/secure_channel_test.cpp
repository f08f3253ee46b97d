// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/secure_channel.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/files.h"
#include "tests/unit/ccom/bootstrap/puppet.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::string plugin() { return test::built("lib/neuron/ccom-tls.so"); }

JoinOptions secure_options(Rank rank, uint32_t size, const std::string& root,
                           milliseconds time = kPatience) {
  JoinOptions options = options_of(rank, size, root, time);
  options.secret = "what only the ranks know";
  options.channel = plugin();
  return options;
}

using Joined = Result<std::unique_ptr<Bootstrap>>;

// All ranks join at once, each in a thread; what became of each.
std::vector<Joined> join_together(const std::vector<JoinOptions>& ranks) {
  std::vector<Joined> joined;
  for (size_t i = 0; i < ranks.size(); ++i) joined.emplace_back(fail(CCOM_SYSTEM, "not tried"));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] { joined[i] = Bootstrap::join(ranks[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return joined;
}

// Between a rank and rank 0: passes on what both say, and remembers it.
class Eavesdropper {
 public:
  // `change`: what becomes of the bytes on their way to rank 0; may be null.
  Eavesdropper(const std::string& root, std::function<void(std::string&)> change)
      : root_(root), change_(std::move(change)) {
    Address address;
    address.bytes = {127, 0, 0, 1};
    listener_ = *open_listener(address, "test");
    address_ = text_of(address);
    thread_ = std::thread([this] { serve(); });
  }
  ~Eavesdropper() {
    over_ = true;
    thread_.join();
    close(listener_);
  }
  Eavesdropper(const Eavesdropper&) = delete;
  Eavesdropper& operator=(const Eavesdropper&) = delete;

  const std::string& address() const { return address_; }
  std::string heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  void serve() {
    while (!over_) {
      pollfd wanted{listener_, POLLIN, 0};
      if (poll(&wanted, 1, 10) <= 0) continue;
      const int guest = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const int host = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const SystemAddress system = system_address(*parse_address(root_));
      if (connect(host, system.get(), system.length) == 0) pass_on(guest, host);
      close(guest);
      close(host);
    }
  }

  void pass_on(int guest, int host) {
    while (!over_) {
      pollfd both[] = {{guest, POLLIN, 0}, {host, POLLIN, 0}};
      if (poll(both, 2, 10) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (both[i].revents == 0) continue;
        char bytes[4096];
        const ssize_t got = recv(both[i].fd, bytes, sizeof(bytes), 0);
        if (got <= 0) return;
        std::string text(bytes, static_cast<size_t>(got));
        if (i == 0 && change_) change_(text);
        {
          const std::lock_guard lock(mutex_);
          heard_ += text;
        }
        static_cast<void>(send(both[1 - i].fd, text.data(), text.size(), MSG_NOSIGNAL));
      }
    }
  }

  const std::string root_;
  const std::function<void(std::string&)> change_;
  std::string address_;
  int listener_ = -1;
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::string heard_;
  std::thread thread_;
};

TEST(SecureChannel, RanksMeetThroughItAsWithoutIt) {
  constexpr uint32_t kSize = 20;
  const std::string root = free_address();
  std::vector<JoinOptions> options;
  for (Rank rank = 0; rank < kSize; ++rank) options.push_back(secure_options(rank, kSize, root));
  const auto joined = join_together(options);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (Rank rank = 0; rank < kSize; ++rank) {
    ASSERT_TRUE(joined[rank]) << joined[rank].error().sentence;
    threads.emplace_back([&, rank] {
      // More than a record of TLS, which has at most 16 KiB.
      const Bytes mine(rank * 3000, std::byte{static_cast<uint8_t>(rank)});
      const auto all = (*joined[rank])->all_gather(mine, base::Deadline::after(kPatience));
      ASSERT_TRUE(all) << all.error().sentence;
      for (Rank i = 0; i < kSize; ++i) {
        right += (*all)[i] == Bytes(i * 3000, std::byte{static_cast<uint8_t>(i)}) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, static_cast<int>(kSize * kSize));
}

TEST(SecureChannel, HidesWhatIsReadableWithoutIt) {
  for (const bool encrypted : {false, true}) {
    const std::string root = free_address();
    Eavesdropper between(root, nullptr);
    std::vector<JoinOptions> options = {secure_options(0, 2, root),
                                        secure_options(1, 2, between.address())};
    if (!encrypted) {
      for (JoinOptions& one : options) one.channel.clear();
    }
    const auto joined = join_together(options);
    ASSERT_TRUE(joined[0]) << joined[0].error().sentence;
    ASSERT_TRUE(joined[1]) << joined[1].error().sentence;
    // What every connection begins with.
    const Bytes hello = frame_of(MessageType::kHello, encode(Hello{}));
    const std::string begin(reinterpret_cast<const char*>(hello.data()), FrameHeader::kBytes);
    EXPECT_GT(between.heard().size(), 200u);
    EXPECT_EQ(between.heard().find(begin) != std::string::npos, !encrypted);
  }
}

TEST(SecureChannel, EndsAConnectionWhoseBytesWereChanged) {
  const std::string root = free_address();
  // Behind the handshake: the first byte of what is encrypted, of each record's.
  std::atomic<int> changed{0};
  Eavesdropper between(root, [&](std::string& text) {
    constexpr char kEncrypted = 0x17;
    if (text.size() > 5 && text[0] == kEncrypted) {
      text[5] = static_cast<char>(text[5] ^ 1);
      ++changed;
    }
  });
  const auto joined = join_together({secure_options(0, 2, root, milliseconds(1500)),
                                     secure_options(1, 2, between.address(), milliseconds(1500))});
  EXPECT_FALSE(joined[0]);
  ASSERT_FALSE(joined[1]);
  EXPECT_GT(changed, 0);
}

TEST(SecureChannel, ARankWithoutItOrWithAnotherSecretDoesNotJoinAndSaysWhatRanksNeed) {
  for (const bool other_secret : {false, true}) {
    const std::string root = free_address();
    // Rank 0 waits longer, so that rank 1 always has somebody to talk to.
    std::vector<JoinOptions> options = {secure_options(0, 2, root, milliseconds(3000)),
                                        secure_options(1, 2, root, milliseconds(1500))};
    if (other_secret) {
      options[1].secret = "what a stranger guesses";
    } else {
      options[1].channel.clear();
    }
    const auto joined = join_together(options);
    EXPECT_FALSE(joined[0]);
    ASSERT_FALSE(joined[1]);
    EXPECT_THAT(joined[1].error().sentence, HasSubstr("CCOM_TLS")) << other_secret;
  }
}

TEST(SecureChannel, ARankWithItLearnsThatRankZeroHasNone) {
  const std::string root = free_address();
  std::vector<JoinOptions> options = {secure_options(0, 2, root, milliseconds(3000)),
                                      secure_options(1, 2, root, milliseconds(1500))};
  options[0].channel.clear();
  const auto joined = join_together(options);
  EXPECT_FALSE(joined[0]);
  ASSERT_FALSE(joined[1]);
  EXPECT_THAT(joined[1].error().sentence, HasSubstr("all ranks need the same CCOM_TLS"));
}

TEST(SecureChannel, StrangersAtItsDoorDoNotKeepRanksOut) {
  const std::string root = free_address();
  Joined first = fail(CCOM_SYSTEM, "not tried");
  std::thread rank_zero([&] { first = Bootstrap::join(secure_options(0, 3, root)); });
  const Bytes scraps[] = {
      Bytes(1, std::byte{0x16}),
      Bytes(300, std::byte{0x16}),
      Bytes(40000, std::byte{0xFF}),
      frame_of(MessageType::kHello, encode(Hello{})),
      // The beginning of TLS's first record, which never comes whole.
      {std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{0x40}, std::byte{0}}};
  std::vector<Wire> strangers;
  for (size_t i = 0; i < 100; ++i) {
    strangers.push_back(Wire::to(*parse_address(root)));
    ASSERT_TRUE(strangers.back().open());
    static_cast<void>(strangers.back().say(scraps[i % std::size(scraps)]));
  }
  const auto others = join_together({secure_options(1, 3, root), secure_options(2, 3, root)});
  rank_zero.join();
  EXPECT_TRUE(first) << first.error().sentence;
  for (const Joined& rank : others) EXPECT_TRUE(rank) << rank.error().sentence;
}

TEST(SecureChannel, SaysWhichPluginItCannotLoad) {
  JoinOptions options = secure_options(0, 2, free_address());
  options.channel = "/nowhere/ccom-tls.so";
  auto joined = Bootstrap::join(options);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().status, CCOM_UNSUPPORTED);
  EXPECT_THAT(joined.error().sentence, HasSubstr("CCOM_TLS=/nowhere/ccom-tls.so"));
  options.channel = test::built("lib/libneuron-emulator.so.1");
  joined = Bootstrap::join(options);
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().sentence, HasSubstr("has no ccom_channel_v1"));
}

}  // namespace
}  // namespace neuron::ccom
