// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what a virtual machine's client may send: messages of any shape to a function with
// its chip. Nothing may crash or hang, every request gets exactly one answer, and an answer is
// well-formed.
//
// The first byte of an input chooses: odd, the rest is what arrives on a socket, byte for byte;
// even, it is a list of commands from which messages are made that are nearly right.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "driver/emulator/transport/vfio_user/pci_function.h"
#include "driver/emulator/transport/vfio_user/vfio_user_session.h"
#include "hw/address_map.h"
#include "hw/udma.h"

namespace {

using namespace neuron::transport;
using namespace neuron::transport::vfio_user;

constexpr size_t kRamBytes = 0x40000;
constexpr size_t kMostMessages = 200;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  template <typename T>
  T take() {
    T value = 0;
    const size_t bytes = left_ < sizeof value ? left_ : sizeof value;
    std::memcpy(&value, data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return value;
  }
  std::vector<std::byte> rest(size_t most) {
    const size_t bytes = left_ < most ? left_ : most;
    std::vector<std::byte> taken(bytes);
    if (bytes != 0) std::memcpy(taken.data(), data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return taken;
  }
  // A register offset, mostly of one that does something.
  uint64_t register_offset() {
    const uint32_t raw = take<uint32_t>();
    switch (raw >> 29) {
      case 0:
      case 1: {
        const uint64_t half = (raw & 1) != 0 ? NEURON_UDMA_S2M : NEURON_UDMA_M2S;
        return NEURON_V2_UDMA((raw & 2) != 0 ? 32u : 0u) + NEURON_UDMA_QUEUE(half, raw >> 4 & 1) +
               (raw >> 8 & 0xFC);
      }
      case 2:
        return NEURON_V2_MISC_RAM + (raw & 0xFFF);
      case 3:
        return NEURON_V2_CORE_WINDOW(raw & 1) + NEURON_CORE_SEMAPHORES + (raw >> 1 & 0x1FFF);
      case 4:
        return NEURON_V2_CORE_WINDOW(raw & 1) + NEURON_CORE_CONTROL + (raw >> 1 & 0xFFFF);
      case 5:
        return NEURON_V2_CORE_WINDOW(raw & 1) + (raw >> 1 & 0xFFFFF);
      default:
        return raw & 0x3FFFFFFF;
    }
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

int guest_file() {
  static const int file = [] {
    const int made = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0 || ftruncate(made, kRamBytes) != 0) std::abort();
    return made;
  }();
  return file;
}

// Makes messages of the input, and looks at the answers.
class CommandStream final : public VfioUserStream {
 public:
  explicit CommandStream(Input& input) : input_(input) {}

  Received receive(VfioUserMessage& message, std::string&) override {
    if (owes_ != 0) fail("a request was not answered");
    if (input_.empty() || ++messages_ > kMostMessages) return Received::kClosed;
    message.files.clear();
    message.body.clear();
    message.header = {static_cast<uint16_t>(messages_), kVersion, 0, kRequest, 0};
    make(message);
    message.header.size = static_cast<uint32_t>(sizeof(Header) + message.body.size());
    current_ = message.header;
    owes_ = (current_.flags & (kNoReply | kTypeMask)) == 0 ? 1 : 0;
    return Received::kMessage;
  }
  bool send(const Header& header, std::span<const std::byte> body, int) override {
    if (header.id != current_.id || header.command != current_.command) fail("whose answer is it?");
    if ((header.flags & kTypeMask) != kReply) fail("an answer is no reply");
    if (header.size != sizeof header + body.size()) fail("an answer's size is wrong");
    if (((header.flags & kError) != 0) != (header.error != 0)) fail("an error without number");
    if (owes_ == 0) fail("an answer that nobody wanted");
    owes_ = 0;
    return true;
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::abort();
  }
  template <typename T>
  static void append(VfioUserMessage& message, const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    message.body.insert(message.body.end(), bytes.begin(), bytes.end());
  }
  void write(VfioUserMessage& message, uint32_t region, uint64_t offset,
             std::span<const std::byte> bytes) {
    message.header.command = kRegionWrite;
    append(message, RegionAccess{offset, region, static_cast<uint32_t>(bytes.size())});
    message.body.insert(message.body.end(), bytes.begin(), bytes.end());
  }

  void make(VfioUserMessage& message) {
    if (messages_ == 1) return append(message, Version{0, 0});
    const uint8_t kind = input_.take<uint8_t>();
    if ((kind & 0x80) != 0) message.header.flags |= kNoReply;
    switch (kind & 15) {
      case 0:
        message.header.command = input_.take<uint8_t>() & 31;
        message.header.flags |= input_.take<uint8_t>();
        message.body = input_.rest(input_.take<uint8_t>());
        return;
      case 1: {
        message.header.command = kDmaMap;
        const uint64_t raw = input_.take<uint64_t>();
        if ((kind & 0x40) != 0) message.files.add(dup(guest_file()));
        append(message, DmaMap{32, static_cast<uint32_t>(raw & 7), (raw >> 8 & 63) << 12,
                               (raw >> 16 & 0xFF) << 12, ((raw >> 24 & 63) + 1) << 12});
        return;
      }
      case 2: {
        message.header.command = kDmaUnmap;
        const uint64_t raw = input_.take<uint64_t>();
        append(message, DmaUnmap{24, static_cast<uint32_t>(raw & 3), (raw >> 16 & 0xFF) << 12,
                                 ((raw >> 24 & 127) + 1) << 12});
        return;
      }
      case 3:
        message.header.command = kRegionRead;
        return append(message, RegionAccess{input_.register_offset(), 0, input_.take<uint8_t>()});
      case 4:
        return write(message, 0, input_.register_offset(),
                     input_.rest(input_.take<uint8_t>() & 15));
      case 5:
        return write(message, 4, input_.take<uint32_t>(), input_.rest(input_.take<uint8_t>()));
      case 6:
        return write(message, kConfigRegion, input_.take<uint16_t>() & 0xFFF,
                     input_.rest(input_.take<uint8_t>() & 15));
      case 7:
        message.header.command = kRegionRead;
        return append(message, RegionAccess{input_.take<uint64_t>(), input_.take<uint8_t>() & 15u,
                                            input_.take<uint32_t>() & 0x1FFFFF});
      case 8:
        message.header.command = kDeviceReset;
        return;
      case 9: {  // memory decoding and bus master
        const std::byte enabled[2] = {std::byte{6}, std::byte{0}};
        return write(message, kConfigRegion, 4, enabled);
      }
      case 10:
        message.header.command = kRegionInfo;
        return append(message,
                      RegionInfo{input_.take<uint16_t>(), 0, input_.take<uint8_t>(), 0, 0, 0});
      default:
        return queue_register(message, kind);
    }
  }

  // One step of setting up a queue as a driver does, with rings in the guest's first pages.
  void queue_register(VfioUserMessage& message, uint8_t kind) {
    const bool s2m = (kind & 0x10) != 0;
    const uint64_t queue =
        NEURON_V2_UDMA(32) + NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, 0);
    uint64_t reg = NEURON_UDMAQ_TAIL_INC;
    uint32_t value = input_.take<uint8_t>();
    switch (kind & 15) {
      case 11:
        reg = NEURON_UDMAQ_BASE_LO;
        value = value << 8 & 0x3F00;
        break;
      case 12:
        reg = NEURON_UDMAQ_BASE_HI;
        value = 0x1000;
        break;
      case 13:
        reg = NEURON_UDMAQ_LENGTH;
        break;
      case 14:
        reg = NEURON_UDMAQ_CFG;
        value = NEURON_UDMAQ_CFG_RUNNING;
        break;
      default:
        break;
    }
    write(message, 0, queue + reg, std::as_bytes(std::span(&value, 1)));
  }

  Input& input_;
  size_t messages_ = 0;
  unsigned owes_ = 0;
  Header current_{};
};

PciFunction& function() {
  static const std::unique_ptr<PciFunction> made = [] {
    VfioUserOptions options;
    options.map_level = MapLevel::kConfiguration;
    options.workers = 1;
    std::string error;
    auto function = PciFunction::create(0, options, error);
    if (function == nullptr) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::abort();
    }
    return function;
  }();
  return *made;
}

// The input as it arrives on a socket: at most what the socket buffers, and then its end.
void from_socket(Input& input) {
  constexpr size_t kMost = 64 << 10;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
  const std::vector<std::byte> bytes = input.rest(kMost);
  const ssize_t sent = ::write(pair[1], bytes.data(), bytes.size());
  if (sent != static_cast<ssize_t>(bytes.size())) std::abort();
  // Answers find no reader.
  shutdown(pair[1], SHUT_RDWR);
  SocketStream stream(pair[0]);
  VfioUserSession session(function(), stream, {});
  session.serve();
  close(pair[1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Input input(data + 1, size - 1);
  std::string error;
  if ((data[0] & 1) != 0) {
    from_socket(input);
  } else {
    // Descriptors for the rings: the head of the input, again and again.
    std::byte* ram = static_cast<std::byte*>(
        mmap(nullptr, kRamBytes, PROT_READ | PROT_WRITE, MAP_SHARED, guest_file(), 0));
    if (ram == MAP_FAILED) std::abort();
    for (size_t at = 0; at < 0x4000; at += 16) {
      const uint32_t control = at < 0x2000 ? 0x0D000040u : 0x01000040u;
      const uint64_t address = NEURON_V2_HOST_BASE | (uint64_t{data[at % size]} << 10);
      std::memcpy(ram + at, &control, 4);
      const uint32_t meta = at < 0x2000 ? 0x01080003u : 0;
      std::memcpy(ram + at + 4, &meta, 4);
      std::memcpy(ram + at + 8, &address, 8);
    }
    munmap(ram, kRamBytes);
    CommandStream stream(input);
    VfioUserSession session(function(), stream, {});
    session.serve();
  }
  if (!function().power_cycle(error)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    std::abort();
  }
  return 0;
}
