// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/gzip_reader.h"

#include <zlib.h>

#include <algorithm>

namespace neuron::neff {

using runtime::fail;
using runtime::Result;

namespace {

class Inflater {
 public:
  Inflater() {
    ready_ = inflateInit2(&stream_, 15 + 16) == Z_OK;
  }  // 16: a gzip wrapper, nothing else.
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool ready() const { return ready_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool ready_ = false;
};

// The most bytes that `stored` bytes may unpack to.
uint64_t allowance(uint64_t stored, const Limits& limits) {
  const uint64_t by_ratio =
      stored > UINT64_MAX / limits.expansion_ratio ? UINT64_MAX : stored * limits.expansion_ratio;
  return std::min(limits.unpacked_bytes, std::max(limits.ratio_floor_bytes, by_ratio));
}

}  // namespace

bool is_gzip(Bytes bytes) { return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B; }

Result<UnpackedBytes> read_gzip(Bytes bytes, const Limits& limits) {
  Inflater inflater;
  if (!inflater.ready()) return fail(NRT_FAIL_HOST_MEM_ALLOC, "no memory to unpack the payload");
  const uint64_t allowed = allowance(bytes.size(), limits);
  UnpackedBytes unpacked;
  uint64_t capacity = 0;
  uint64_t consumed = 0;
  z_stream& stream = inflater.stream();
  for (;;) {  // bounded: grows to `allowed`, each turn consumes or produces
    if (unpacked.size == capacity) {
      const uint64_t first = std::max<uint64_t>(bytes.size() * 4, 64 << 10);
      // One byte beyond the allowance is enough to know that it is exceeded.
      capacity = std::min(capacity == 0 ? first : capacity * 2, allowed + 1);
      void* grown = std::realloc(unpacked.data.get(), capacity);
      if (!grown) {
        return fail(NRT_FAIL_HOST_MEM_ALLOC,
                    "no memory to unpack the payload: {} bytes so far, {} more", unpacked.size,
                    capacity - unpacked.size);
      }
      (void)unpacked.data.release();
      unpacked.data.reset(static_cast<uint8_t*>(grown));
    }
    constexpr uint64_t kPiece = 1u << 30;  // zlib counts with 32 bits.
    const auto in = std::min<uint64_t>(bytes.size() - consumed, kPiece);
    const auto out = std::min<uint64_t>(capacity - unpacked.size, kPiece);
    stream.next_in = const_cast<Bytef*>(bytes.data() + consumed);
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = unpacked.data.get() + unpacked.size;
    stream.avail_out = static_cast<uInt>(out);
    const int status = inflate(&stream, Z_NO_FLUSH);
    const uint64_t taken = in - stream.avail_in;
    const uint64_t made = out - stream.avail_out;
    consumed += taken;
    unpacked.size += made;
    if (unpacked.size > allowed) {
      return fail(
          NRT_INVALID,
          "the gzip payload of {} bytes unpacks to more than {} bytes, the most that is allowed "
          "for its size; if it is genuine, pack it without compression",
          bytes.size(), allowed);
    }
    if (status == Z_STREAM_END) {
      if (consumed == bytes.size()) return unpacked;
      if (!is_gzip(bytes.subspan(consumed)) || inflateReset(&stream) != Z_OK) {
        return fail(NRT_INVALID, "payload offset {}: {} bytes follow the end of the gzip data",
                    consumed, bytes.size() - consumed);
      }
      continue;  // A gzip file may consist of several members.
    }
    if (status == Z_MEM_ERROR) {
      return fail(NRT_FAIL_HOST_MEM_ALLOC, "no memory to unpack the payload: {} bytes so far",
                  unpacked.size);
    }
    if (status != Z_OK && status != Z_BUF_ERROR) {
      return fail(NRT_INVALID,
                  "payload offset {}: the gzip data is damaged ({}); {} bytes were unpacked",
                  consumed, stream.msg ? stream.msg : "no reason given", unpacked.size);
    }
    if (taken == 0 && made == 0) {
      return fail(
          NRT_INVALID,
          "the gzip payload ends after {} bytes, in the middle of its data; the file is truncated",
          bytes.size());
    }
  }
}

}  // namespace neuron::neff
