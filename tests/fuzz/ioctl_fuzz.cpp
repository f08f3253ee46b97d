// SPDX-License-Identifier: Apache-2.0
// Sequences of driver calls by two processes and a restricted descriptor, with a close in between:
// whatever a program passes, a call answers and the service, its tables and its chip stay whole.
//
// Input: one operation after another. Its first byte selects the operation and the session; a call
// goes on with the index of its rule, two masks of 64-bit words of the argument (words that become
// a live memory handle, and words that are cut to 20 bits), and the bytes of the argument. What the
// pointers of the argument lead to is made as the daemon of shared devices makes it.
#include <fcntl.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/session.h"
#include "driver/wire/wire_ioctl.h"

namespace {

using namespace neuron;  // NOLINT: one program

constexpr unsigned kSessions = 3;
constexpr unsigned kMostOperations = 64;
// Calls that wait for others to let go: one in a sequence shows what they do.
constexpr unsigned kMostWaits = 1;

class Input : public wire::DataSource {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t byte() {
    uint8_t value = 0;
    read(&value, 1);
    return value;
  }
  // Past the end come zeros: a short input is a valid one.
  bool read(void* to, uint64_t size) override {
    const size_t taken = std::min<size_t>(size, left_);
    if (taken != 0) std::memcpy(to, data_, taken);
    if (taken != size) std::memset(static_cast<char*>(to) + taken, 0, size - taken);
    data_ += taken;
    left_ -= taken;
    read_ += size;
    return true;
  }
  uint64_t bytes_read() const { return read_; }

 private:
  const uint8_t* data_;
  size_t left_;
  uint64_t read_ = 0;
};

service::Instance& instance() {
  static service::Instance* made = [] {
    int error = 0;
    auto built =
        service::Instance::create("trn1.2xlarge", {.all = 256 << 20}, core::create_chip, error);
    if (built == nullptr) std::abort();
    return built.release();
  }();
  return *made;
}

bool waits(uint64_t request) {
  return request == NEURON_IOCTL_CRWL_WRITER_ENTER || request == NEURON_IOCTL_CRWL_READER_ENTER ||
         request == NEURON_IOCTL_CINIT_SET_STATE;
}
// Fills 16 GiB.
bool is_scrub(uint64_t request) { return request == NEURON_IOCTL_HBM_SCRUB_START; }

class Sequence {
 public:
  explicit Sequence(Input& input) : input_(input) {
    for (unsigned i = 0; i < kSessions; ++i) open(i);
  }
  ~Sequence() {
    for (service::Session* session : sessions_) {
      if (session != nullptr) instance().close(session);
    }
  }
  void run() {
    for (unsigned n = 0; n < kMostOperations && !input_.empty(); ++n) {
      const uint8_t choice = input_.byte();
      const unsigned index = choice % kSessions;
      switch (choice >> 5) {
        case 0:
          reopen(index);
          break;
        case 1:
          registers(index);
          break;
        case 2:
          map(index);
          break;
        default:
          call(index);
      }
    }
  }

 private:
  void open(unsigned index) {
    // The last is a restricted descriptor of the first process.
    const int flags = index == 2 ? O_WRONLY : O_RDWR;
    instance().open(0, flags, 1000 + static_cast<int>(index % 2), &sessions_[index]);
  }
  void reopen(unsigned index) {
    instance().close(sessions_[index]);
    sessions_[index] = nullptr;
    open(index);
  }
  void registers(unsigned index) {
    uint32_t words[3] = {};
    input_.read(words, sizeof(words));
    sessions_[index]->write_register(words[0] & ~3u, words[1], false);
    sessions_[index]->read_register(words[2], &words[1]);
  }
  void map(unsigned index) {
    uint64_t words[2] = {};
    input_.read(words, sizeof(words));
    void* address = nullptr;
    if (sessions_[index]->map(words[0], 3, words[1], &address) == 0) {
      sessions_[index]->unmap(address, words[0]);
    }
  }
  void call(unsigned index) {
    const auto rules = wire::all_ioctls();
    const wire::IoctlRule& rule = rules[input_.byte() % rules.size()];
    if (is_scrub(rule.request)) return;
    if (waits(rule.request) && ++waited_ > kMostWaits) return;
    const uint8_t handle_words = input_.byte(), short_words = input_.byte();
    std::vector<std::byte> argument(rule.size);
    input_.read(argument.data(), argument.size());
    for (size_t word = 0; word < 8 && word * 8 + 8 <= argument.size(); ++word) {
      uint64_t value = 0;
      std::memcpy(&value, &argument[word * 8], 8);
      if ((handle_words >> word & 1) != 0 && !handles_.empty()) {
        value = handles_[value % handles_.size()];
      } else if ((short_words >> word & 1) != 0) {
        value &= 0xFFFFF;
      }
      std::memcpy(&argument[word * 8], &value, 8);
    }
    // Every pointer valid, and exactly as much data as the rule asks for: counted first.
    Input counted = input_;
    wire::IncomingCall counting, incoming;
    counting.accept(rule.request, argument, 0x5, wire::kMaxData, counted);
    const uint64_t bytes = counted.bytes_read() - input_.bytes_read();
    if (incoming.accept(rule.request, argument, 0x5, bytes, input_) != 0) return;
    if (sessions_[index]->ioctl(rule.request, incoming.argument()) != 0) return;
    for (const wire::Bytes& out : incoming.out()) {
      if (out.size != sizeof(uint64_t) || handles_.size() >= 16) continue;
      uint64_t handle = 0;
      std::memcpy(&handle, out.address, sizeof(handle));
      handles_.push_back(handle);
    }
  }

  Input& input_;
  service::Session* sessions_[kSessions] = {};
  std::vector<uint64_t> handles_;
  unsigned waited_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Sequence(input).run();
  return 0;
}
