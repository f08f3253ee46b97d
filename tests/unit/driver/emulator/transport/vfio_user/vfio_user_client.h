// SPDX-License-Identifier: Apache-2.0
// The other end of a vfio-user connection, for tests: speaks messages as a virtual machine's client
// does, over a socket pair, to a function that a thread serves.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_CLIENT_H
#define TESTS_UNIT_DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_CLIENT_H

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "driver/emulator/transport/vfio_user/pci_function.h"
#include "driver/emulator/transport/vfio_user/vfio_user_session.h"
#include "hw/address_map.h"
#include "hw/udma.h"

namespace neuron::transport {

namespace wire = vfio_user;

// A file of memory as a virtual machine has for its RAM.
class GuestRam {
 public:
  explicit GuestRam(size_t bytes, bool sealed = true) : bytes_(bytes) {
    file_ = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0);
    if (sealed) {
      EXPECT_EQ(fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    }
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    EXPECT_NE(memory, MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
  }
  ~GuestRam() {
    munmap(memory_, bytes_);
    close(file_);
  }
  GuestRam(const GuestRam&) = delete;
  GuestRam& operator=(const GuestRam&) = delete;
  int file() const { return file_; }
  std::byte* at(size_t offset) { return memory_ + offset; }
  uint32_t word(size_t offset) const {
    uint32_t value;
    std::memcpy(&value, memory_ + offset, 4);
    return value;
  }
  void set_word(size_t offset, uint32_t value) { std::memcpy(memory_ + offset, &value, 4); }

 private:
  size_t bytes_;
  int file_ = -1;
  std::byte* memory_ = nullptr;
};

struct ClientReply {
  bool arrived = false;
  wire::Header header{};
  std::vector<std::byte> body;
  int file = -1;
  uint32_t error() const { return (header.flags & wire::kError) != 0 ? header.error : 0; }
  template <typename T>
  T as() const {
    T value{};
    EXPECT_GE(body.size(), sizeof value);
    if (body.size() >= sizeof value) std::memcpy(&value, body.data(), sizeof value);
    return value;
  }
};

// Speaks over a connected socket.
class VfioUserClient {
 public:
  explicit VfioUserClient(int socket) : socket_(socket) {
    const timeval patience{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~VfioUserClient() { close(socket_); }
  VfioUserClient(const VfioUserClient&) = delete;
  VfioUserClient& operator=(const VfioUserClient&) = delete;

  int socket() const { return socket_; }

  void send_raw(std::span<const std::byte> bytes) {
    ASSERT_EQ(write(socket_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  std::vector<std::byte> message(uint16_t command, std::span<const std::byte> body,
                                 uint32_t flags = 0) {
    const wire::Header header{++id_, command,
                              static_cast<uint32_t>(sizeof(wire::Header) + body.size()), flags, 0};
    std::vector<std::byte> bytes(sizeof header + body.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    if (!body.empty()) std::memcpy(bytes.data() + sizeof header, body.data(), body.size());
    return bytes;
  }
  void send(uint16_t command, std::span<const std::byte> body, int file = -1, uint32_t flags = 0) {
    std::vector<std::byte> bytes = message(command, body, flags);
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr envelope = {};
    envelope.msg_iov = &part;
    envelope.msg_iovlen = 1;
    if (file >= 0) {
      envelope.msg_control = control;
      envelope.msg_controllen = sizeof control;
      cmsghdr* c = CMSG_FIRSTHDR(&envelope);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(c), &file, sizeof file);
    }
    ASSERT_EQ(sendmsg(socket_, &envelope, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  ClientReply receive() {
    ClientReply reply;
    iovec part{&reply.header, sizeof reply.header};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr envelope = {};
    envelope.msg_iov = &part;
    envelope.msg_iovlen = 1;
    envelope.msg_control = control;
    envelope.msg_controllen = sizeof control;
    if (recvmsg(socket_, &envelope, MSG_WAITALL) != static_cast<ssize_t>(sizeof reply.header)) {
      return reply;
    }
    const cmsghdr* c = CMSG_FIRSTHDR(&envelope);
    if (c != nullptr) std::memcpy(&reply.file, CMSG_DATA(c), sizeof reply.file);
    reply.body.resize(reply.header.size - sizeof reply.header);
    size_t done = 0;
    while (done < reply.body.size()) {
      const ssize_t got =
          recv(socket_, reply.body.data() + done, reply.body.size() - done, MSG_WAITALL);
      if (got <= 0) return reply;
      done += static_cast<size_t>(got);
    }
    reply.arrived = true;
    EXPECT_EQ(reply.header.id, id_);
    EXPECT_EQ(reply.header.flags & wire::kTypeMask, wire::kReply);
    return reply;
  }
  ClientReply ask_bytes(uint16_t command, std::span<const std::byte> body, int file = -1) {
    send(command, body, file);
    return receive();
  }
  template <typename T>
  ClientReply ask(uint16_t command, const T& body, int file = -1) {
    return ask_bytes(command, std::as_bytes(std::span(&body, 1)), file);
  }

  ClientReply agree() { return ask(wire::kVersion, wire::Version{0, 0}); }
  ClientReply map(uint64_t address, uint64_t size, int file, uint64_t offset = 0,
                  uint32_t flags = 3) {
    return ask(wire::kDmaMap, wire::DmaMap{32, flags, offset, address, size}, file);
  }
  ClientReply unmap(uint64_t address, uint64_t size, uint32_t flags = 0) {
    return ask(wire::kDmaUnmap, wire::DmaUnmap{24, flags, address, size});
  }
  ClientReply read(uint32_t region, uint64_t offset, uint32_t count) {
    return ask(wire::kRegionRead, wire::RegionAccess{offset, region, count});
  }
  template <typename T>
  T get(uint32_t region, uint64_t offset) {
    const ClientReply reply = read(region, offset, sizeof(T));
    EXPECT_EQ(reply.error(), 0u);
    T value{};
    EXPECT_EQ(reply.body.size(), sizeof(wire::RegionAccess) + sizeof value);
    if (reply.body.size() == sizeof(wire::RegionAccess) + sizeof value) {
      std::memcpy(&value, reply.body.data() + sizeof(wire::RegionAccess), sizeof value);
    }
    return value;
  }
  std::vector<std::byte> write_body(uint32_t region, uint64_t offset,
                                    std::span<const std::byte> bytes) {
    const wire::RegionAccess access{offset, region, static_cast<uint32_t>(bytes.size())};
    std::vector<std::byte> body(sizeof access + bytes.size());
    std::memcpy(body.data(), &access, sizeof access);
    std::memcpy(body.data() + sizeof access, bytes.data(), bytes.size());
    return body;
  }
  template <typename T>
  void put(uint32_t region, uint64_t offset, T value) {
    const ClientReply reply = ask_bytes(
        wire::kRegionWrite, write_body(region, offset, std::as_bytes(std::span(&value, 1))));
    EXPECT_TRUE(reply.arrived);
    EXPECT_EQ(reply.error(), 0u) << "region " << region << " offset " << std::hex << offset;
  }
  uint32_t reg(uint64_t offset) { return get<uint32_t>(0, offset); }
  void set_reg(uint64_t offset, uint32_t value) { put<uint32_t>(0, offset, value); }

  // Memory decoding and bus master, as a driver's probe enables them.
  void enable() { put<uint16_t>(wire::kConfigRegion, 4, 0x6); }

  // Sets up queue 0 of the engine that copies for the host, with rings in guest memory.
  void init_queue(uint64_t m2s, uint64_t s2m, uint32_t length) {
    for (const bool half : {false, true}) {
      const uint64_t q = queue(half);
      const uint64_t ring = half ? s2m : m2s;
      const uint64_t control = half ? NEURON_UDMAQ_S2M_SW_CONTROL : NEURON_UDMAQ_M2S_SW_CONTROL;
      set_reg(q + NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RESET);
      set_reg(q + control, NEURON_UDMAQ_SW_RESET);
      set_reg(q + NEURON_UDMAQ_BASE_LO, static_cast<uint32_t>(ring));
      set_reg(q + NEURON_UDMAQ_BASE_HI, static_cast<uint32_t>((ring | NEURON_V2_HOST_BASE) >> 32));
      set_reg(q + NEURON_UDMAQ_LENGTH, length);
      set_reg(q + NEURON_UDMAQ_CFG, 0x03030000);
    }
  }
  static uint64_t queue(bool s2m) {
    return NEURON_V2_UDMA(32) + NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, 0);
  }

 private:
  int socket_;
  uint16_t id_ = 0;
};

// Writes the descriptors of a copy of `bytes` at `index` of both rings, as drivers do.
inline void write_copy(GuestRam& ram, size_t m2s, size_t s2m, unsigned index, uint64_t from,
                       uint64_t to, uint32_t bytes) {
  struct Descriptor {
    uint32_t control;
    uint32_t meta;
    uint64_t address;
  };
  const Descriptor source{0x0D000000u | (bytes & 0xFFFF), 0x01080003, from};
  const Descriptor destination{0x01000000u | (bytes & 0xFFFF), 0, to};
  std::memcpy(ram.at(m2s + 16 * index), &source, sizeof source);
  std::memcpy(ram.at(s2m + 16 * index), &destination, sizeof destination);
}

// A function, and a client of it.
class ServedFunction {
 public:
  static VfioUserOptions options(MapLevel level = MapLevel::kMemory) {
    VfioUserOptions options;
    options.map_level = level;
    options.workers = 1;
    return options;
  }
  explicit ServedFunction(const VfioUserOptions& options = ServedFunction::options(),
                          unsigned index = 0) {
    std::string error;
    function = PciFunction::create(index, options, error);
    EXPECT_NE(function, nullptr) << error;
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    stream = std::make_unique<SocketStream>(pair[0]);
    client = std::make_unique<VfioUserClient>(pair[1]);
    session = std::make_unique<VfioUserSession>(
        *function, *stream, [this](const std::string& sentence) { log += sentence + "\n"; });
    thread = std::thread([this] {
      session->serve();
      stream->close();
    });
  }
  ~ServedFunction() { finish(); }
  // Ends the connection; log and session may be looked at afterwards.
  void finish() {
    shutdown(client->socket(), SHUT_RDWR);
    if (thread.joinable()) thread.join();
  }

  std::unique_ptr<PciFunction> function;
  std::unique_ptr<SocketStream> stream;
  std::unique_ptr<VfioUserClient> client;
  std::unique_ptr<VfioUserSession> session;
  std::string log;
  std::thread thread;
};

}  // namespace neuron::transport

#endif
