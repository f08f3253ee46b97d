// SPDX-License-Identifier: Apache-2.0
// One client of a function: decodes its messages, answers them, acts on them.
//
// Concepts: every message is checked before anything of it happens. A wrong one is answered with an
// errno; only a stream that is out of step ends the connection. A write to the register BAR
// is answered before the chip sees it: it may ring a doorbell, and a client that waits too long for
// an answer gives its device up. Callers: the function's thread, or a test with messages of its
// own. Thread-safe: no. Borrows function and stream. Fails: serve_one returns false when the
// connection is over; ended() then says why.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_SESSION_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_SESSION_H

#include <functional>
#include <string>
#include <type_traits>

#include "driver/emulator/transport/vfio_user/pci_function.h"
#include "driver/emulator/transport/vfio_user/vfio_user_stream.h"

namespace neuron::transport {

class VfioUserSession {
 public:
  using Log = std::function<void(const std::string&)>;

  VfioUserSession(PciFunction& function, VfioUserStream& stream, Log log);

  // Receives and serves messages until the connection is over.
  void serve() {
    // Bounded: by the connection.
    while (serve_one()) {
    }
  }
  bool serve_one();
  const std::string& ended() const { return ended_; }
  uint64_t messages() const { return messages_; }

 private:
  bool handle(const VfioUserMessage& message);
  bool version(const VfioUserMessage& message);
  bool dma_map(const VfioUserMessage& message);
  bool dma_unmap(const VfioUserMessage& message);
  bool device_info(const VfioUserMessage& message);
  bool region_info(const VfioUserMessage& message);
  bool irq_info(const VfioUserMessage& message);
  bool set_irqs(const VfioUserMessage& message);
  bool region_read(const VfioUserMessage& message);
  bool region_write(const VfioUserMessage& message);
  bool reset(const VfioUserMessage& message);

  bool answer(const VfioUserMessage& message, std::span<const std::byte> body, int file = -1);
  template <typename T>
  bool answer_value(const VfioUserMessage& message, const T& body) {
    static_assert(std::is_trivially_copyable_v<T>);
    return answer(message, std::as_bytes(std::span(&body, 1)));
  }
  void log(const std::string& why);
  bool refuse(const VfioUserMessage& message, int error, const std::string& why);
  bool answer_error(const VfioUserMessage& message, int error);
  // The access of REGION_READ or REGION_WRITE, checked against region and body.
  bool checked_access(const VfioUserMessage& message, bool write, vfio_user::RegionAccess& access,
                      std::string& why) const;

  PciFunction& function_;
  VfioUserStream& stream_;
  const Log log_;
  bool agreed_ = false;  // on a version
  unsigned logged_ = 0;
  uint64_t messages_ = 0;
  VfioUserMessage message_;
  std::vector<std::byte> out_;
  std::string ended_;
};

}  // namespace neuron::transport

#endif
