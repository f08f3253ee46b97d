// SPDX-License-Identifier: Apache-2.0
// The vfio-user messages that a virtual machine's client and a device exchange, as bytes.
//
// Concepts: a message is a header and a body, little-endian; a reply repeats id and command.
// Regions are numbered as VFIO does: 0-5 are the BARs, 6 the ROM, 7 the configuration space.
// Callers: VfioUserSession and its tests. No state, cannot fail.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_PROTOCOL_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_PROTOCOL_H

#include <cstdint>

namespace neuron::transport::vfio_user {

enum Command : uint16_t {
  kVersion = 1,
  kDmaMap = 2,
  kDmaUnmap = 3,
  kDeviceInfo = 4,
  kRegionInfo = 5,
  kRegionIoFds = 6,
  kIrqInfo = 7,
  kSetIrqs = 8,
  kRegionRead = 9,
  kRegionWrite = 10,
  kDmaRead = 11,   // from the device to the client; we send none
  kDmaWrite = 12,  // the same
  kDeviceReset = 13,
};

struct Header {
  uint16_t id;
  uint16_t command;
  uint32_t size;  // with the header
  uint32_t flags;
  uint32_t error;  // errno of a reply with kError
};
inline constexpr uint32_t kTypeMask = 0xF;
inline constexpr uint32_t kRequest = 0;
inline constexpr uint32_t kReply = 1;
inline constexpr uint32_t kNoReply = 1u << 4;
inline constexpr uint32_t kError = 1u << 5;

inline constexpr uint16_t kMajorVersion = 0;
inline constexpr uint16_t kMinorVersion = 1;
// One transfer through REGION_READ or REGION_WRITE, as VERSION announces it.
inline constexpr uint32_t kMaxTransfer = 1u << 20;
// The largest message that can be meant: a transfer and its headers, with room to spare.
inline constexpr uint32_t kMaxMessage = kMaxTransfer + 4096;
inline constexpr uint32_t kMaxMessageFds = 16;
inline constexpr uint32_t kMaxDmaMaps = 65535;
inline constexpr uint64_t kPage = 4096;

struct Version {
  uint16_t major;
  uint16_t minor;  // then JSON with a NUL at its end
};

struct DmaMap {
  uint32_t argsz;
  uint32_t flags;
  uint64_t offset;  // in the file that comes with the message
  uint64_t address;
  uint64_t size;
};
inline constexpr uint32_t kDmaReadable = 1;
inline constexpr uint32_t kDmaWritable = 2;

struct DmaUnmap {
  uint32_t argsz;
  uint32_t flags;
  uint64_t address;
  uint64_t size;
};
inline constexpr uint32_t kUnmapDirtyBitmap = 1;
inline constexpr uint32_t kUnmapAll = 2;

struct DeviceInfo {
  uint32_t argsz;
  uint32_t flags;
  uint32_t regions;
  uint32_t irqs;
};
inline constexpr uint32_t kDeviceResettable = 1;
inline constexpr uint32_t kDevicePci = 2;

inline constexpr uint32_t kConfigRegion = 7;
inline constexpr uint32_t kRegions = 9;
inline constexpr uint32_t kIrqs = 5;

struct RegionInfo {
  uint32_t argsz;  // in: room for the answer; out: what the whole answer needs
  uint32_t flags;
  uint32_t index;
  uint32_t capabilities;  // offset of the first one
  uint64_t size;
  uint64_t offset;  // where the region begins in its file
};
inline constexpr uint32_t kRegionReadable = 1;
inline constexpr uint32_t kRegionWritable = 2;
inline constexpr uint32_t kRegionMappable = 4;
inline constexpr uint32_t kRegionCapabilities = 8;

// The parts of a region that may be mapped; areas follow.
struct SparseMap {
  uint16_t id;
  uint16_t version;
  uint32_t next;
  uint32_t areas;
  uint32_t reserved;
};
inline constexpr uint16_t kSparseMapId = 1;
struct SparseArea {
  uint64_t offset;
  uint64_t size;
};

struct IrqInfo {
  uint32_t argsz;
  uint32_t flags;
  uint32_t index;
  uint32_t count;
};
inline constexpr uint32_t kIrqEventfd = 1;
inline constexpr uint32_t kIrqMsix = 2;  // the last index that a function has; errors follow

struct IrqSet {
  uint32_t argsz;
  uint32_t flags;
  uint32_t index;
  uint32_t start;
  uint32_t count;
};

struct RegionAccess {
  uint64_t offset;
  uint32_t region;
  uint32_t count;
};

static_assert(sizeof(Header) == 16 && sizeof(DmaMap) == 32 && sizeof(DmaUnmap) == 24);
static_assert(sizeof(DeviceInfo) == 16 && sizeof(RegionInfo) == 32 && sizeof(SparseMap) == 16);
static_assert(sizeof(IrqInfo) == 16 && sizeof(IrqSet) == 20 && sizeof(RegionAccess) == 16);

}  // namespace neuron::transport::vfio_user

#endif
