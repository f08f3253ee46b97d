// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what a client of the daemon may send: packets are parsed, and what is a message is
// carried out on a session of a real device. Nothing may crash, and the daemon's addresses stay
// inside.
//
// An input: a byte of flags (1 = make a header that fits, 2 = make it a call that exists), then
// packets, each behind two bytes of length.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/service/session.h"
#include "driver/emulator/transport/shared/shared_calls.h"
#include "driver/emulator/transport/shared/shared_message.h"
#include "driver/wire/wire_ioctl.h"
#include "uapi/neuron_ioctl.h"

namespace {

using namespace neuron;

constexpr uint64_t kMemory = 256u << 20;
constexpr int kReadWrite = 2;  // O_RDWR

struct Machine {
  Machine() {
    int error = 0;
    instance = service::Instance::create("trn1.2xlarge", kMemory, core::create_chip, error);
    if (instance == nullptr ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sockets) != 0) {
      std::fprintf(stderr, "%s\n", service::last_error());
      std::abort();
    }
  }
  std::unique_ptr<service::Instance> instance;
  int sockets[2];
};

void make_call(std::vector<std::byte>& packet) {
  const auto rules = wire::all_ioctls();
  if (packet.size() < sizeof(wire::IoctlRequest)) packet.resize(sizeof(wire::IoctlRequest));
  wire::IoctlRequest request;
  std::memcpy(&request, packet.data(), sizeof(request));
  const wire::IoctlRule& rule = rules[request.request % rules.size()];
  request.request = rule.request;
  request.argument_bytes = rule.size;
  if (packet.size() < sizeof(request) + rule.size) packet.resize(sizeof(request) + rule.size);
  request.data_bytes = packet.size() - sizeof(request) - rule.size;
  request.header.kind = static_cast<uint16_t>(wire::Kind::kIoctl);
  request.header.flags &= wire::kFlagNoArgument;
  std::memcpy(packet.data(), &request, sizeof(request));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Machine& machine = *new Machine;
  if (size < 1) return 0;
  const uint8_t flags = data[0];
  service::Session* session = nullptr;
  if (machine.instance->open(0, kReadWrite, 1, &session) != 0) std::abort();
  // So that nothing waits for anybody.
  session->abandon();
  const std::atomic<bool> gone{true};
  for (size_t at = 1; at + 2 <= size;) {
    const size_t length = std::min<size_t>(data[at] | data[at + 1] << 8, size - at - 2);
    const auto* begin = reinterpret_cast<const std::byte*>(data) + at + 2;
    at += 2 + length;
    transport::Call call;
    call.packet.assign(begin, begin + length);
    if ((flags & 2) != 0) make_call(call.packet);
    if ((flags & 1) != 0 && call.packet.size() >= sizeof(wire::Header)) {
      wire::Header header;
      std::memcpy(&header, call.packet.data(), sizeof(header));
      header.magic = wire::kMagic;
      header.size = static_cast<uint32_t>(call.packet.size());
      std::memcpy(call.packet.data(), &header, sizeof(header));
    }
    std::string why;
    const auto request = transport::parse_request(call.packet, why);
    if (!request) {
      if (why.empty()) std::abort();
      continue;
    }
    // What only writes to the log.
    if (request->kind == wire::Kind::kIoctl &&
        (request->ioctl.request == NEURON_IOCTL_PRINTK ||
         request->ioctl.request == NEURON_IOCTL_NC_PID_STATE_DUMP)) {
      continue;
    }
    call.request = *request;
    if (request->kind == wire::Kind::kWait) call.request.wait.deadline_ns = 0;
    (void)transport::carry_out(*session, machine.sockets[0], call, gone);
    alignas(8) std::byte answer[wire::kMaxMessage];
    base::PacketFiles files;
    const ssize_t got = base::receive_packet(machine.sockets[1], answer, files, MSG_DONTWAIT);
    wire::Reply reply;
    if (got < static_cast<ssize_t>(sizeof(reply))) std::abort();
    std::memcpy(&reply, answer, sizeof(reply));
    if (reply.header.size != static_cast<uint32_t>(got)) std::abort();
  }
  machine.instance->close(session);
  return 0;
}
