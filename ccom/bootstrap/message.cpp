// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/message.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace neuron::ccom {
namespace {

constexpr size_t kTextBytes = 16384;  // sentences that name many ranks

// Reading and writing use one list of fields for each message: fields() below.
class Writer {
 public:
  template <class T>
  requires std::is_integral_v<T>
  void operator()(const T& number) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(
          static_cast<std::byte>(static_cast<std::make_unsigned_t<T>>(number) >> (8 * i)));
    }
  }
  void operator()(const Digest& digest) { raw(std::as_bytes(std::span(digest))); }
  void operator()(const std::string& text) {
    const auto length = static_cast<uint32_t>(std::min(text.size(), kTextBytes));
    (*this)(length);
    raw(std::as_bytes(std::span(text.data(), length)));
  }
  void operator()(const Bytes& data) {
    (*this)(static_cast<uint32_t>(data.size()));
    raw(data);
  }
  void operator()(const Address& address) {
    (*this)(static_cast<uint8_t>(address.v6));
    raw(std::as_bytes(std::span(address.bytes)));
    (*this)(address.scope);
    (*this)(address.port);
  }
  void operator()(const Member& member) {
    (*this)(member.host_id);
    (*this)(member.process);
    (*this)(member.device);
    (*this)(member.host);
  }
  template <class T>
  void operator()(const std::vector<T>& list) {
    (*this)(static_cast<uint32_t>(list.size()));
    for (const T& item : list) {
      (*this)(item);
    }
  }
  // A field whose value is always the same.
  template <class T>
  void constant(T number) {
    (*this)(number);
  }
  Bytes take() { return std::move(bytes_); }

 private:
  void raw(std::span<const std::byte> data) {
    bytes_.insert(bytes_.end(), data.begin(), data.end());
  }

  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_integral_v<T>
  void operator()(T& number) {
    using Word = std::make_unsigned_t<T>;
    Word word = 0;
    const auto data = raw(sizeof(T));
    for (size_t i = 0; i < data.size(); ++i) {
      word = static_cast<Word>(word | static_cast<Word>(data[i]) << (8 * i));
    }
    number = static_cast<T>(word);
  }
  void operator()(Digest& digest) {
    const auto data = raw(digest.size());
    std::ranges::copy(data, std::as_writable_bytes(std::span(digest)).begin());
  }
  void operator()(std::string& text) {
    uint32_t length = 0;
    (*this)(length);
    if (length > kTextBytes) {
      good_ = false;
    }
    const auto data = raw(good_ ? length : 0);
    text.assign(reinterpret_cast<const char*>(data.data()), data.size());
    // The text is for people, and a peer's text must not control a terminal.
    for (char& c : text) {
      c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  void operator()(Bytes& data) {
    uint32_t length = 0;
    (*this)(length);
    if (length > kGatherBytes) {
      good_ = false;
    }
    const auto from = raw(good_ ? length : 0);
    data.assign(from.begin(), from.end());
  }
  void operator()(Address& address) {
    uint8_t v6 = 0;
    (*this)(v6);
    good_ = good_ && v6 <= 1;
    address.v6 = v6 != 0;
    const auto data = raw(address.bytes.size());
    std::copy(data.begin(), data.end(), reinterpret_cast<std::byte*>(address.bytes.data()));
    (*this)(address.scope);
    (*this)(address.port);
  }
  void operator()(Member& member) {
    (*this)(member.host_id);
    (*this)(member.process);
    (*this)(member.device);
    (*this)(member.host);
  }
  template <class T>
  void operator()(std::vector<T>& list) {
    uint32_t count = 0;
    (*this)(count);
    // Every item has at least four bytes, so a count cannot ask for much more memory than the
    // message has bytes.
    if (count > kMaxRanks || count > (bytes_.size() - at_) / 4) {
      good_ = false;
    }
    list.resize(good_ ? count : 0);
    for (T& item : list) {
      (*this)(item);
    }
  }
  template <class T>
  void constant(T number) {
    T found{};
    (*this)(found);
    good_ = good_ && found == number;
  }
  // True if every field was there, and nothing else.
  bool complete() const { return good_ && at_ == bytes_.size(); }

 private:
  std::span<const std::byte> raw(size_t length) {
    if (!good_ || length > bytes_.size() - at_) {
      good_ = false;
      return {};
    }
    const auto data = bytes_.subspan(at_, length);
    at_ += length;
    return data;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool good_ = true;
};

template <class T, class Direction>
void fields(Direction& each, T& m) {
  using Message = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Message, Hello>) {
    each.constant(kHelloMagic), each(m.version), each(m.nonce);
  } else if constexpr (std::is_same_v<Message, Challenge>) {
    each.constant(kHelloMagic), each(m.version), each(m.nonce), each(m.proof);
  } else if constexpr (std::is_same_v<Message, Proof>) {
    each(m.proof);
  } else if constexpr (std::is_same_v<Message, Join>) {
    each(m.rank), each(m.size), each(m.major), each(m.minor), each(m.host_id), each(m.process);
    each(m.device), each(m.capabilities), each(m.remaining_ms), each(m.listener), each(m.host);
  } else if constexpr (std::is_same_v<Message, TreePlace>) {
    each(m.session), each(m.parent), each(m.address);
  } else if constexpr (std::is_same_v<Message, Refuse>) {
    each(m.status), each(m.sentence);
  } else if constexpr (std::is_same_v<Message, Attach>) {
    each(m.session), each(m.rank);
  } else if constexpr (std::is_same_v<Message, Table>) {
    each(m.capabilities), each(m.members), each(m.listeners);
  } else if constexpr (std::is_same_v<Message, GatherUp>) {
    each(m.round), each(m.remaining_ms), each(m.rank), each(m.data);
  } else if constexpr (std::is_same_v<Message, GatherDown>) {
    each(m.round), each(m.data);
  } else if constexpr (std::is_same_v<Message, RoundFailed>) {
    each(m.round), each(m.sentence);
  } else if constexpr (std::is_same_v<Message, Failure>) {
    each(m.rank), each(m.dead), each(m.status), each(m.sentence);
  } else if constexpr (std::is_same_v<Message, Regroup>) {
    each(m.key), each(m.rank), each(m.remaining_ms), each(m.listener), each(m.ranks);
  } else if constexpr (std::is_same_v<Message, RegroupDecided>) {
    each(m.key), each(m.root), each(m.nonce), each(m.ranks);
  } else {
    static_assert(std::is_same_v<Message, Notice>);
    each(m.rank), each(m.number), each(m.sentence);
  }
}

// Whether a failure may have this status: a rank must not take a failure for a success, nor show a
// number without a name.
bool is_failure(uint32_t status) {
  return status > CCOM_SUCCESS && status <= CCOM_REVOKED && status != CCOM_IN_PROGRESS;
}

template <class T>
Bytes write(const T& message) {
  Writer writer;
  fields(writer, message);
  return writer.take();
}

template <class T>
bool read(std::span<const std::byte> bytes, T& message) {
  Reader reader(bytes);
  fields(reader, message);
  return reader.complete();
}

}  // namespace

void encode(const FrameHeader& header, std::byte* into) {
  Writer writer;
  writer(header.length);
  writer(static_cast<uint16_t>(header.type));
  writer.constant(kFrameMark);
  const Bytes bytes = writer.take();
  std::memcpy(into, bytes.data(), FrameHeader::kBytes);
}

bool decode(std::span<const std::byte> bytes, FrameHeader& header) {
  Reader reader(bytes);
  uint16_t type = 0;
  reader(header.length);
  reader(type);
  reader.constant(kFrameMark);
  header.type = static_cast<MessageType>(type);
  return reader.complete() && type >= static_cast<uint16_t>(MessageType::kHello) &&
         type <= static_cast<uint16_t>(MessageType::kGrowthNotice);
}

Bytes encode(const Hello& message) { return write(message); }
Bytes encode(const Challenge& message) { return write(message); }
Bytes encode(const Proof& message) { return write(message); }
Bytes encode(const Join& message) { return write(message); }
Bytes encode(const TreePlace& message) { return write(message); }
Bytes encode(const Refuse& message) { return write(message); }
Bytes encode(const Attach& message) { return write(message); }
Bytes encode(const Table& message) { return write(message); }
Bytes encode(const GatherUp& message) { return write(message); }
Bytes encode(const GatherDown& message) { return write(message); }
Bytes encode(const RoundFailed& message) { return write(message); }
Bytes encode(const Failure& message) { return write(message); }
Bytes encode(const Regroup& message) { return write(message); }
Bytes encode(const RegroupDecided& message) { return write(message); }
Bytes encode(const Notice& message) { return write(message); }

bool decode(std::span<const std::byte> bytes, Hello& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, Challenge& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, Proof& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, Join& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, TreePlace& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, Refuse& message) {
  return read(bytes, message) && is_failure(message.status);
}
bool decode(std::span<const std::byte> bytes, Attach& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, Table& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, GatherUp& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, GatherDown& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, RoundFailed& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, Failure& message) {
  return read(bytes, message) && is_failure(message.status);
}
bool decode(std::span<const std::byte> bytes, Regroup& message) { return read(bytes, message); }
bool decode(std::span<const std::byte> bytes, RegroupDecided& message) {
  return read(bytes, message);
}
bool decode(std::span<const std::byte> bytes, Notice& message) {
  return read(bytes, message) && message.sentence.size() <= CCOM_NOTICE_BYTES;
}

}  // namespace neuron::ccom
