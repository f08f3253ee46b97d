// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_session.h"

#include <cerrno>
#include <cstring>
#include <string_view>

namespace neuron::transport {
namespace {

using namespace vfio_user;

// What a guest can make a client send wrong would otherwise fill the log.
constexpr unsigned kMaxLogged = 32;
constexpr std::string_view kCapabilities =
    "{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":1048576,\"pgsizes\":4096,"
    "\"max_dma_maps\":65535}}";

template <typename T>
bool take(const VfioUserMessage& message, T& value) {
  if (message.body.size() < sizeof value) return false;
  std::memcpy(&value, message.body.data(), sizeof value);
  return true;
}

template <typename T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::string short_body(const char* what, const VfioUserMessage& message, size_t wanted) {
  return std::string(what) + " has a body of " + std::to_string(message.body.size()) +
         " bytes, it needs " + std::to_string(wanted);
}

}  // namespace

VfioUserSession::VfioUserSession(PciFunction& function, VfioUserStream& stream, Log log)
    : function_(function), stream_(stream), log_(std::move(log)) {}

bool VfioUserSession::answer(const VfioUserMessage& message, std::span<const std::byte> body,
                             int file) {
  if ((message.header.flags & kNoReply) != 0) return true;
  Header header = message.header;
  header.flags = kReply;
  header.error = 0;
  header.size = static_cast<uint32_t>(sizeof header + body.size());
  if (stream_.send(header, body, file)) return true;
  ended_ = "the client takes no answers";
  return false;
}

bool VfioUserSession::refuse(const VfioUserMessage& message, int error, const std::string& why) {
  log(why);
  return answer_error(message, error);
}

void VfioUserSession::log(const std::string& why) {
  if (!log_ || logged_ >= kMaxLogged) return;
  log_(why + (++logged_ == kMaxLogged ? "; what else this client does wrong is not logged" : ""));
}

bool VfioUserSession::answer_error(const VfioUserMessage& message, int error) {
  if ((message.header.flags & kNoReply) != 0) return true;
  Header header = message.header;
  header.flags = kReply | kError;
  header.error = static_cast<uint32_t>(error);
  header.size = sizeof header;
  if (stream_.send(header, {}, -1)) return true;
  ended_ = "the client takes no answers";
  return false;
}

bool VfioUserSession::serve_one() {
  std::string why;
  const Received received = stream_.receive(message_, why);
  if (received != Received::kMessage) {
    ended_ = received == Received::kClosed ? "the client has closed the connection" : why;
    return false;
  }
  ++messages_;
  const bool go_on = handle(message_);
  message_.files.clear();
  return go_on;
}

bool VfioUserSession::handle(const VfioUserMessage& message) {
  const Header& header = message.header;
  if ((header.flags & kTypeMask) != kRequest) {
    // We ask nothing, so nobody answers us.
    ended_ = "the client sent message " + std::to_string(header.id) + " with flags " +
             std::to_string(header.flags) + ", which is no request";
    return false;
  }
  if (!agreed_ && header.command != kVersion) {
    ended_ = "the client's first message is command " + std::to_string(header.command) +
             " and not the version";
    (void)refuse(message, EINVAL, ended_);
    return false;
  }
  switch (header.command) {
    case kVersion:
      return version(message);
    case kDmaMap:
      return dma_map(message);
    case kDmaUnmap:
      return dma_unmap(message);
    case kDeviceInfo:
      return device_info(message);
    case kRegionInfo:
      return region_info(message);
    case kIrqInfo:
      return irq_info(message);
    case kSetIrqs:
      return set_irqs(message);
    case kRegionRead:
      return region_read(message);
    case kRegionWrite:
      return region_write(message);
    case kDeviceReset:
      return reset(message);
    default:
      return refuse(message, ENOTSUP,
                    "command " + std::to_string(header.command) + " is not offered");
  }
}

bool VfioUserSession::version(const VfioUserMessage& message) {
  Version wanted;
  if (!take(message, wanted)) {
    ended_ = short_body("the version", message, sizeof wanted);
    (void)refuse(message, EINVAL, ended_);
    return false;
  }
  if (agreed_ || wanted.major != kMajorVersion) {
    ended_ = agreed_ ? "the client asks for a version a second time"
                     : "the client speaks version " + std::to_string(wanted.major) + "." +
                           std::to_string(wanted.minor) + " of vfio-user, this device 0.1";
    (void)refuse(message, EINVAL, ended_);
    return false;
  }
  if (message.body.size() > sizeof wanted && message.body.back() != std::byte{0}) {
    return refuse(message, EINVAL, "the capabilities of the version do not end with a NUL");
  }
  agreed_ = true;
  const Version ours{kMajorVersion, std::min(wanted.minor, kMinorVersion)};
  out_.clear();
  append(out_, ours);
  for (const char c : kCapabilities) out_.push_back(static_cast<std::byte>(c));
  out_.push_back(std::byte{0});
  return answer(message, out_);
}

bool VfioUserSession::dma_map(const VfioUserMessage& message) {
  DmaMap map;
  if (!take(message, map)) {
    return refuse(message, EINVAL, short_body("a map of guest memory", message, sizeof map));
  }
  if ((map.flags & ~(kDmaReadable | kDmaWritable)) != 0 || message.files.size() > 1) {
    return refuse(message, EINVAL,
                  "a map of guest memory has flags " + std::to_string(map.flags) + " and " +
                      std::to_string(message.files.size()) + " files; known flags are 1 and 2");
  }
  std::string why;
  const int error = function_.memory().map(map.address, map.size, message.files.first(), map.offset,
                                           (map.flags & kDmaWritable) != 0, why);
  if (error != 0) return refuse(message, error, why);
  if (!why.empty()) log(why);
  return answer(message, {});
}

bool VfioUserSession::dma_unmap(const VfioUserMessage& message) {
  DmaUnmap unmap;
  if (!take(message, unmap)) {
    return refuse(message, EINVAL, short_body("an unmap", message, sizeof unmap));
  }
  if ((unmap.flags & ~kUnmapAll) != 0) {
    return refuse(message, EINVAL,
                  "an unmap of guest memory has flags " + std::to_string(unmap.flags) +
                      "; dirty pages are not tracked");
  }
  if ((unmap.flags & kUnmapAll) != 0) {
    function_.memory().unmap_all();
    return answer_value(message, unmap);
  }
  std::string why;
  const int error = function_.memory().unmap(unmap.address, unmap.size, why);
  return error == 0 ? answer_value(message, unmap) : refuse(message, error, why);
}

bool VfioUserSession::device_info(const VfioUserMessage& message) {
  const DeviceInfo info{sizeof(DeviceInfo), kDeviceResettable | kDevicePci, kRegions, kIrqs};
  return answer_value(message, info);
}

// Clients ask twice: how long the answer is, then for the answer.
bool VfioUserSession::region_info(const VfioUserMessage& message) {
  RegionInfo info;
  if (!take(message, info)) {
    return refuse(message, EINVAL, short_body("a question for a region", message, sizeof info));
  }
  if (info.index >= kRegions) {
    return refuse(message, EINVAL,
                  "there is no region " + std::to_string(info.index) + "; the last is " +
                      std::to_string(kRegions - 1));
  }
  const PciRegion region = function_.region(info.index);
  const uint32_t room = info.argsz;
  info = {sizeof info, 0, info.index, 0, region.bytes, 0};
  if (region.bytes != 0) info.flags = kRegionReadable | kRegionWritable;
  if (region.file >= 0) info.flags |= kRegionMappable;
  if (!region.areas.empty()) {
    info.flags |= kRegionCapabilities;
    info.capabilities = sizeof info;
    info.argsz +=
        static_cast<uint32_t>(sizeof(SparseMap) + region.areas.size() * sizeof(SparseArea));
  }
  if (room < info.argsz) return answer_value(message, info);
  out_.clear();
  append(out_, info);
  if (!region.areas.empty()) {
    append(out_, SparseMap{kSparseMapId, 1, 0, static_cast<uint32_t>(region.areas.size()), 0});
    for (const SparseArea& area : region.areas) append(out_, area);
  }
  return answer(message, out_, region.file);
}

bool VfioUserSession::irq_info(const VfioUserMessage& message) {
  IrqInfo info;
  if (!take(message, info)) {
    return refuse(message, EINVAL, short_body("a question for interrupts", message, sizeof info));
  }
  // Error and request interrupts: a client is content without them, but not with a count of 0.
  if (info.index > kIrqMsix) {
    return answer_error(message, EINVAL);
  }
  const IrqInfo none{sizeof none, kIrqEventfd, info.index, 0};
  return answer_value(message, none);
}

bool VfioUserSession::set_irqs(const VfioUserMessage& message) {
  IrqSet set;
  if (!take(message, set)) {
    return refuse(message, EINVAL, short_body("setting interrupts", message, sizeof set));
  }
  if (set.index > kIrqMsix || set.count != 0) {
    return refuse(message, EINVAL,
                  "interrupts " + std::to_string(set.start) + " and on of kind " +
                      std::to_string(set.index) + " do not exist: the chip has none");
  }
  return answer(message, {});
}

bool VfioUserSession::checked_access(const VfioUserMessage& message, bool write,
                                     RegionAccess& access, std::string& why) const {
  if (!take(message, access)) {
    why = short_body("an access", message, sizeof access);
    return false;
  }
  const size_t payload = message.body.size() - sizeof access;
  const uint64_t bytes = function_.region_bytes(access.region);
  if (access.count == 0 || access.count > kMaxTransfer || access.offset > bytes ||
      access.count > bytes - access.offset || (write && payload != access.count)) {
    why = std::string(write ? "writing " : "reading ") + std::to_string(access.count) +
          " bytes at " + std::to_string(access.offset) + " of region " +
          std::to_string(access.region) + ", which has " + std::to_string(bytes) +
          (write ? ", with " + std::to_string(payload) + " bytes in the message" : "");
    return false;
  }
  return true;
}

bool VfioUserSession::region_read(const VfioUserMessage& message) {
  RegionAccess access;
  std::string why;
  if (!checked_access(message, false, access, why)) return refuse(message, EINVAL, why);
  out_.resize(sizeof access + access.count);
  std::memcpy(out_.data(), &access, sizeof access);
  (void)function_.read(access.region, access.offset, std::span(out_).subspan(sizeof access));
  return answer(message, out_);
}

bool VfioUserSession::region_write(const VfioUserMessage& message) {
  RegionAccess access;
  std::string why;
  if (!checked_access(message, true, access, why)) return refuse(message, EINVAL, why);
  const auto payload = std::span(message.body).subspan(sizeof access);
  // An answer says that the write has been done: whatever it stopped has stopped, and a driver that
  // has rung begins to count its patience when the transfer is over. What takes long is answered
  // first, because a client gives up a function that does not answer for seconds.
  const bool first = function_.may_take_long(access.region, access.offset, payload);
  if (first && !answer_value(message, access)) return false;
  (void)function_.write(access.region, access.offset, payload);
  return first || answer_value(message, access);
}

bool VfioUserSession::reset(const VfioUserMessage& message) {
  function_.reset();
  return answer(message, {});
}

}  // namespace neuron::transport
