// SPDX-License-Identifier: Apache-2.0
// A device that a daemon shares among processes: messages, mapped memory, a page for registers.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "driver/ndl/error.h"
#include "driver/ndl/port_backends.h"
#include "driver/ndl/shared_channel.h"
#include "driver/ndl/shared_doorbell.h"
#include "driver/ndl/shared_transfer.h"

namespace neuron::ndl {
namespace {

constexpr size_t kPage = 4096;
// Beyond the deadline of a wait, for the daemon's answer to arrive.
constexpr uint64_t kGrace_ms = 10'000;

class SharedDevice final : public DevicePort {
 public:
  SharedDevice(std::unique_ptr<SharedChannel> channel, std::unique_ptr<SharedDoorbell> doorbell,
               bool may_map)
      : channel_(std::move(channel)),
        doorbell_(std::move(doorbell)),
        transfer_(*channel_, may_map) {}

  ~SharedDevice() override {
    channel_->close();
    for (const auto& [address, mapping] : mappings_) {
      ::munmap(reinterpret_cast<void*>(address), mapping.length);
    }
  }

  int ioctl(unsigned long request, void* argument) override {
    return transfer_.ioctl(request, argument);
  }

  int map(size_t length, int protection, uint64_t offset, void** address) override {
    const size_t whole = (length + kPage - 1) / kPage * kPage;
    // The first part says where the others, if there are any, are to follow: each is a file.
    std::byte* begin = nullptr;
    for (size_t done = 0; done < whole;) {
      uint64_t bytes = 0;
      const int result = map_part(begin == nullptr ? length : whole - done, protection,
                                  offset + done, done, whole, &begin, &bytes);
      if (result != 0) {
        if (begin != nullptr) ::munmap(begin, whole);
        return result;
      }
      done += bytes;
    }
    // As with a kernel driver's mappings, a child has none of them, and core dumps neither.
    ::madvise(begin, whole, MADV_DONTFORK);
    ::madvise(begin, whole, MADV_DONTDUMP);
    const std::lock_guard lock(mutex_);
    mappings_[reinterpret_cast<uintptr_t>(begin)] = {whole, offset};
    *address = begin;
    return 0;
  }

  int unmap(void* address, size_t length) override {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(reinterpret_cast<uintptr_t>(address));
    if (found == mappings_.end()) {
      return fail(-EINVAL, "%zu bytes at %p were never mapped", length, address);
    }
    ::munmap(address, found->second.length);
    mappings_.erase(found);
    return 0;
  }

  int read_register(uint64_t bar0_offset, uint32_t* value) override {
    *value = 0;
    return access(bar0_offset, value, 0);
  }

  int write_register(uint64_t bar0_offset, uint32_t value, bool run_inline) override {
    return access(bar0_offset, &value,
                  wire::kFlagWrite | (run_inline ? wire::kFlagInline : uint32_t{0}));
  }

  int post_registers(std::span<const RegisterWrite> writes) override {
    static_assert(kMostPosted <= wire::PostedWrites::kMost);
    const bool posts = doorbell_ && (channel_->welcome().features & wire::kFeaturePosts) != 0 &&
                       !writes.empty() && writes.size() <= kMostPosted;
    return posts ? doorbell_->post(writes) : DevicePort::post_registers(writes);
  }

  int check_posted() override { return doorbell_ ? doorbell_->check_posted() : 0; }

  int wait(unsigned core, const uint32_t* word, uint32_t old, uint64_t deadline_ns) override {
    // Acquire: pairs with the device's release store of the word.
    const auto changed = [&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) != old; };
    if (spin_briefly(false, changed)) return 0;
    auto message = wire::message<wire::WaitRequest>(wire::Kind::kWait, 0);
    message.deadline_ns = deadline_ns;
    message.core = core;
    message.old = old;
    if (!device_address(word, &message.word_address)) {
      return fail(-EINVAL, "the word at %p, to be waited for, is in no mapped device memory",
                  static_cast<const void*>(word));
    }
    const uint64_t now = base::monotonic_ns();
    const uint64_t rest_ms = deadline_ns > now ? (deadline_ns - now) / 1'000'000 : 0;
    const iovec part = {&message, sizeof(message)};
    SharedAnswer answer;
    return channel_->call({&part, 1}, {}, answer,
                          std::min<uint64_t>(rest_ms, INT32_MAX - kGrace_ms) + kGrace_ms);
  }

  std::string describe(unsigned core) override {
    auto message = wire::message<wire::DescribeRequest>(wire::Kind::kDescribe, 0);
    message.core = core;
    const iovec part = {&message, sizeof(message)};
    SharedAnswer answer;
    if (channel_->call({&part, 1}, {}, answer) != 0) return {};
    return {reinterpret_cast<const char*>(answer.data.data()), answer.data.size()};
  }

  void abandon() override {
    if (doorbell_) doorbell_->abandon();
    channel_->abandon();
  }

 private:
  struct Mapping {
    size_t length;
    uint64_t device_address;
  };

  // Maps what the file at `offset` has of `length` bytes, behind the first `done` of the `whole`
  // that begin at `begin`, which the first part finds room for.
  int map_part(size_t length, int protection, uint64_t offset, size_t done, size_t whole,
               std::byte** begin, uint64_t* bytes) {
    auto message = wire::message<wire::MapRequest>(wire::Kind::kMap, 0);
    message.length = length;
    message.offset = offset;
    message.protection = static_cast<uint32_t>(protection);
    const iovec part = {&message, sizeof(message)};
    SharedAnswer answer;
    if (const int result = channel_->call({&part, 1}, {}, answer)) return result;
    if (answer.files_lost) {
      return fail(-EMFILE,
                  "this process may not open the file of %zu bytes of device memory; raise its "
                  "limit of open files (ulimit -n)",
                  length);
    }
    *bytes =
        std::min<uint64_t>((answer.reply.numbers[1] + kPage - 1) / kPage * kPage, whole - done);
    if (!answer.files[0] || *bytes == 0) {
      return fail(-EPROTO, "the daemon at %s has sent no memory to map", channel_->path().c_str());
    }
    void* mapped = *begin;
    if (mapped == nullptr) {
      mapped = ::mmap(nullptr, whole, protection, MAP_SHARED | MAP_NORESERVE, answer.files[0].get(),
                      static_cast<off_t>(answer.reply.numbers[0]));
    } else {
      mapped = ::mmap(*begin + done, *bytes, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                      answer.files[0].get(), static_cast<off_t>(answer.reply.numbers[0]));
    }
    if (mapped == MAP_FAILED) {
      return fail(-errno, "%zu bytes of device memory cannot be mapped: %s", whole,
                  std::strerror(errno));
    }
    if (*begin == nullptr) *begin = static_cast<std::byte*>(mapped);
    return 0;
  }

  int access(uint64_t offset, uint32_t* value, uint32_t flags) {
    if (doorbell_) {
      const uint32_t sent = *value;
      const int result = doorbell_->access(offset, value, flags);
      if (result <= 0) return result;
      // Refused without any effect, so that it may be asked again, for the sentence; or not sent.
      *value = sent;
    }
    auto message = wire::message<wire::RegisterRequest>(wire::Kind::kRegister, 0,
                                                        static_cast<uint16_t>(flags));
    message.offset = offset;
    message.value = *value;
    const iovec part = {&message, sizeof(message)};
    SharedAnswer answer;
    const int result = channel_->call({&part, 1}, {}, answer);
    if (result == 0) *value = static_cast<uint32_t>(answer.reply.numbers[0]);
    return result;
  }

  bool device_address(const void* pointer, uint64_t* address) {
    const auto at = reinterpret_cast<uintptr_t>(pointer);
    const std::lock_guard lock(mutex_);
    auto after = mappings_.upper_bound(at);
    if (after == mappings_.begin()) return false;
    const auto& [begin, mapping] = *--after;
    if (at - begin >= mapping.length) return false;
    *address = mapping.device_address + (at - begin);
    return true;
  }

  const std::unique_ptr<SharedChannel> channel_;
  const std::unique_ptr<SharedDoorbell> doorbell_;  // null: registers go in messages
  SharedTransfer transfer_;
  std::mutex mutex_;  // mappings_
  std::map<uintptr_t, Mapping> mappings_;
};

class SharedPort final : public Port {
 public:
  // `observer`: null, or a connection for questions that was just made.
  SharedPort(std::string path, const wire::Welcome& welcome, bool may_map,
             std::shared_ptr<SharedChannel> observer)
      : path_(std::move(path)),
        devices_(static_cast<int>(std::min(welcome.devices, 1024u))),
        profile_(welcome.profile),
        driver_version_(welcome.driver_version),
        may_map_(may_map),
        observer_(std::move(observer)) {}

  int devices(int* indexes, int capacity) override {
    for (int i = 0; i < devices_ && i < capacity; ++i) indexes[i] = i;
    return devices_;
  }

  int open(int index, int flags, std::unique_ptr<DevicePort>& device) override {
    auto channel = SharedChannel::open(path_, wire::kPurposeOpen, index, flags);
    if (channel == nullptr) return -errno;
    {
      // A process that works with a device seldom asks questions.
      const std::lock_guard lock(mutex_);
      observer_ = nullptr;
    }
    std::unique_ptr<SharedDoorbell> doorbell;
    const uint64_t features = channel->welcome().features;
    if ((features & wire::kFeatureDoorbells) != 0 && channel->files()[0]) {
      doorbell = SharedDoorbell::create(*channel);
      if (doorbell == nullptr) return -errno;
    }
    device = std::make_unique<SharedDevice>(std::move(channel), std::move(doorbell),
                                            may_map_ && (features & wire::kFeatureMapping) != 0);
    return 0;
  }

  int observe(const neuron_emulator_question& question, uint32_t timeout_ms, std::string& answer,
              uint64_t& next) override {
    std::shared_ptr<SharedChannel> channel;
    {
      const std::lock_guard lock(mutex_);
      if (observer_ == nullptr || observer_->gone()) {
        observer_ = SharedChannel::open(path_, wire::kPurposeObserve, 0, 0, timeout_ms);
        if (observer_ == nullptr) return -errno;
      }
      channel = observer_;
    }
    auto message = wire::message<wire::ObserveRequest>(wire::Kind::kObserve, 0);
    message.question = question;
    const iovec part = {&message, sizeof(message)};
    SharedAnswer brought;
    const int result = channel->call({&part, 1}, {}, brought, timeout_ms);
    if (result != 0) return result;
    answer.assign(reinterpret_cast<const char*>(brought.data.data()), brought.data.size());
    next = brought.reply.numbers[0];
    return 0;
  }

  std::string name() const override { return "shared " + profile_ + " at " + path_; }
  std::string driver_version() const override { return driver_version_; }
  std::string instance_type() const override { return profile_; }

 private:
  const std::string path_;
  const int devices_;
  const std::string profile_;
  const std::string driver_version_;
  const bool may_map_;
  std::mutex mutex_;  // observer_
  std::shared_ptr<SharedChannel> observer_;
};

}  // namespace

std::unique_ptr<Port> shared_port(const std::string& path, const std::string& copies) {
  if (path.empty()) {
    fail(-EINVAL,
         "NEURON_EMULATOR=unix: has no path behind the colon; give the one that neuron-emulatord "
         "--socket was given");
    return nullptr;
  }
  if (path[0] == '@') {
    fail(-EINVAL,
         "NEURON_EMULATOR=unix:%s names no socket: an abstract name has no owner and no "
         "permissions; give the path that neuron-emulatord --socket was given",
         path.c_str());
    return nullptr;
  }
  if (!copies.empty() && copies != "mapping" && copies != "descriptors") {
    fail(-EINVAL, "NEURON_EMULATOR_COPY=%s is neither mapping nor descriptors", copies.c_str());
    return nullptr;
  }
  const bool may_map = copies != "descriptors";
  // A process that looks at devices asks questions next, through the same connection.
  std::shared_ptr<SharedChannel> observer = SharedChannel::open(path, wire::kPurposeObserve, 0, 0);
  if (observer != nullptr) {
    const wire::Welcome welcome = observer->welcome();
    return std::make_unique<SharedPort>(path, welcome, may_map, std::move(observer));
  }
  // A daemon that answers no questions still lists its devices.
  const auto channel =
      errno == EPROTO ? SharedChannel::open(path, wire::kPurposeList, 0, 0) : nullptr;
  if (channel == nullptr) {
    explain(-errno, "NEURON_EMULATOR=unix:%s", path.c_str());
    return nullptr;
  }
  return std::make_unique<SharedPort>(path, channel->welcome(), may_map, nullptr);
}

}  // namespace neuron::ndl
