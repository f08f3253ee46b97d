// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/shared_calls.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "driver/emulator/service/error.h"
#include "driver/emulator/service/observer.h"
#include "driver/emulator/service/session.h"
#include "driver/wire/wire_ioctl.h"

namespace neuron::transport {
namespace {

using Clock = std::chrono::steady_clock;
using service::fail;

// How long a client may leave its messages unread.
constexpr int kReplyPatienceMs = 10'000;
// Bytes of a call that nobody counts: about those of its message.
constexpr uint64_t kUncounted = 64u << 10;
// How often a wait looks whether the client still lives.
constexpr std::chrono::milliseconds kCallLook{20};

class PacketData final : public wire::DataSource {
 public:
  explicit PacketData(std::span<const std::byte> data) : data_(data) {}
  bool read(void* to, uint64_t size) override {
    if (size > data_.size()) return false;
    std::memcpy(to, data_.data(), size);
    data_ = data_.subspan(size);
    return true;
  }

 private:
  std::span<const std::byte> data_;
};

// A memory file of the client: read, never mapped, because the client may cut it at any time.
class FileData final : public wire::DataSource {
 public:
  explicit FileData(int fd) : fd_(fd) {}
  bool read(void* to, uint64_t size) override {
    auto* at = static_cast<std::byte*>(to);
    while (size != 0) {
      const ssize_t part = ::pread(fd_, at, size, static_cast<off_t>(offset_));
      if (part < 0 && errno == EINTR) continue;
      if (part <= 0) return false;
      at += part;
      offset_ += static_cast<uint64_t>(part);
      size -= static_cast<uint64_t>(part);
    }
    return true;
  }

 private:
  const int fd_;
  uint64_t offset_ = 0;
};

bool write_all(int fd, std::span<const wire::Bytes> parts) {
  uint64_t offset = 0;
  for (const wire::Bytes& part : parts) {
    for (uint64_t done = 0; done < part.size;) {
      const ssize_t written = ::pwrite(fd, static_cast<const std::byte*>(part.address) + done,
                                       part.size - done, static_cast<off_t>(offset + done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      done += static_cast<uint64_t>(written);
    }
    offset += part.size;
  }
  return true;
}

int send_answer(int socket, uint32_t id, int result, std::span<const std::byte> argument,
                std::span<const wire::Bytes> data, bool in_file) {
  uint64_t bytes = 0;
  for (const wire::Bytes& part : data) bytes += part.size;
  const char* sentence = result < 0 ? service::last_error() : "";
  const size_t length = std::min(std::strlen(sentence), wire::kMaxSentence);
  const size_t behind = length + argument.size() + (in_file ? 0 : bytes);
  auto reply = wire::message<wire::Reply>(wire::Kind::kReply, id,
                                          in_file ? wire::kFlagDataInFile : 0, behind);
  reply.result = result;
  reply.sentence_bytes = static_cast<uint32_t>(length);
  reply.argument_bytes = static_cast<uint32_t>(argument.size());
  reply.data_bytes = bytes;
  std::vector<iovec> parts = {{&reply, sizeof(reply)},
                              {const_cast<char*>(sentence), length},
                              {const_cast<std::byte*>(argument.data()), argument.size()}};
  if (!in_file) {
    if (data.size() > 64) {
      // More parts than one message takes on every kernel.
      std::vector<std::byte> joined;
      joined.reserve(bytes);
      for (const wire::Bytes& part : data) {
        const auto* begin = static_cast<const std::byte*>(part.address);
        joined.insert(joined.end(), begin, begin + part.size);
      }
      parts.push_back({joined.data(), joined.size()});
      return base::send_packet(socket, parts, {}, kReplyPatienceMs);
    }
    for (const wire::Bytes& part : data) parts.push_back({part.address, part.size});
  }
  return base::send_packet(socket, parts, {}, kReplyPatienceMs);
}

int carry_out_ioctl(service::Session& session, int socket, Call& call, CallBudget& budget,
                    const std::atomic<bool>& gone) {
  const Request& request = call.request;
  const auto refuse = [&](int error, const char* why) {
    fail(error, "call 0x%llx on a shared device: %s",
         static_cast<unsigned long long>(request.ioctl.request), why);
    return send_reply(socket, request.id, error);
  };
  if ((request.flags & wire::kFlagNoArgument) != 0) {
    return send_reply(socket, request.id, session.ioctl(request.ioctl.request, nullptr));
  }
  if (call.file_lost) {
    return refuse(-EMFILE,
                  "the daemon may not open the file that came with it; raise the daemon's limit of "
                  "open files");
  }
  const bool has_file = static_cast<bool>(call.file);
  if (has_file && !base::is_memory_file(call.file.get())) {
    return refuse(-EINVAL, "its data is in a file that is not in memory");
  }
  const bool in_file = (request.flags & wire::kFlagDataInFile) != 0;
  if (in_file && !has_file) return refuse(-EINVAL, "the file with its data is missing");
  CallMemory memory(budget, session.client());
  std::optional<wire::IncomingCall> accepted;  // behind `memory`: its buffers are gone before
  int error = -ENOBUFS;
  uint64_t room = std::max(
      kUncounted, wire::IncomingCall::least_room(request.ioctl.request, request.ioctl.data_bytes));
  // Again when it is known what the answer needs; of a call in a file the client may then have
  // changed the data, and it is not asked a third time.
  for (unsigned i = 0; i < 2 && error == -ENOBUFS; ++i) {
    accepted.reset();
    memory.give_back();
    if (room > kUncounted && !memory.take(room, gone)) return -ECANCELED;
    PacketData from_packet(request.data);
    FileData from_file(call.file.get());
    error = accepted.emplace().accept(
        request.ioctl.request, request.argument, request.ioctl.pointers, request.ioctl.data_bytes,
        in_file ? static_cast<wire::DataSource&>(from_file) : from_packet, room);
    room = accepted->needed();
  }
  wire::IncomingCall& incoming = *accepted;
  if (error != 0) {
    return refuse(error == -EPROTO || error == -ENOBUFS ? -EINVAL : error,
                  error == -EPROTO    ? "its data does not agree with its argument"
                  : error == -ENOBUFS ? "its data changes while it is read; let no thread write it"
                  : error == -E2BIG
                      ? "more than 64 MiB of data, or than 65536 pieces; make several calls"
                      : "the daemon is out of memory");
  }
  const int result = session.ioctl(request.ioctl.request, incoming.argument());
  const std::span<const std::byte> argument = incoming.answer();
  const bool large = incoming.out_bytes() > wire::kMaxInlineData;
  if (large && !has_file) return refuse(-EINVAL, "no file was passed for its answer");
  if (large && !write_all(call.file.get(), incoming.out())) {
    return refuse(-EFAULT, "its answer cannot be written to the file that was passed");
  }
  return send_answer(socket, request.id, result, argument, incoming.out(), large);
}

int carry_out_wait(service::Session& session, const wire::WaitRequest& wait,
                   const std::atomic<bool>& gone) {
  // Held in place, so that nobody else gets the memory while we look at it.
  const service::Pin memory = session.device().memory().pin_address(wait.word_address, 4);
  if (!memory || !session.may_use(*memory) || wait.word_address % 4 != 0) {
    return fail(-EINVAL,
                "device %u: the word to wait for, at 0x%llx, is in no live allocation of this "
                "process",
                session.device().index(), static_cast<unsigned long long>(wait.word_address));
  }
  const std::byte* word = memory->data + (wait.word_address - memory->address);
  for (;;) {  // bounded: by the deadline of the request
    const uint64_t look = static_cast<uint64_t>((Clock::now() + kCallLook).time_since_epoch() /
                                                std::chrono::nanoseconds(1));
    const int result = session.wait(wait.core, reinterpret_cast<const uint32_t*>(word), wait.old,
                                    std::min(wait.deadline_ns, look));
    if (result != -ETIMEDOUT || wait.deadline_ns <= look) return result;
    if (gone.load(std::memory_order_relaxed)) return -ECANCELED;
  }
}

// What a process may map is its own allocation; of another one's datastore it gets a descriptor
// that lets it read.
int answer_map(service::Session& session, int socket, const Request& request) {
  service::Place place;
  int result = session.locate(request.map.length, static_cast<int>(request.map.protection),
                              request.map.offset, &place);
  if (result != 0) return send_reply(socket, request.id, result);
  base::FileDescriptor readable;
  int file = place.memory->file.get();
  if (!session.may_use(*place.memory)) {
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    // Other users must not open it anew to write.
    if (::fchmod(file, S_IRUSR | S_IWUSR) == 0) {
      readable.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
    if (!readable) {
      result = fail(-errno, "device %u: a datastore cannot be opened for reading: %s",
                    session.device_index(), std::strerror(errno));
      return send_reply(socket, request.id, result);
    }
    file = readable.get();
  }
  return send_reply(socket, request.id, 0, place.offset, place.bytes, file);
}

int answer_resolve(service::Session& session, int socket, const Request& request) {
  service::Place place;
  const int result =
      session.resolve(request.resolve.handle, request.resolve.offset, request.resolve.size, &place);
  if (result != 0) return send_reply(socket, request.id, result);
  const uint64_t number = place.memory->serial;
  return send_reply(socket, request.id, 0, number, place.offset,
                    number == request.resolve.known ? -1 : place.memory->file.get());
}

int carry_out_known(service::Session& session, int socket, Call& call, CallBudget& budget,
                    const std::atomic<bool>& gone) {
  const Request& request = call.request;
  switch (request.kind) {
    case wire::Kind::kIoctl:
      return carry_out_ioctl(session, socket, call, budget, gone);
    case wire::Kind::kMap:
      return answer_map(session, socket, request);
    case wire::Kind::kResolve:
      return answer_resolve(session, socket, request);
    case wire::Kind::kRegister: {
      uint32_t value = request.access.value;
      const int result = (request.flags & wire::kFlagWrite) != 0
                             ? session.write_register(request.access.offset, value,
                                                      (request.flags & wire::kFlagInline) != 0)
                             : session.read_register(request.access.offset, &value);
      return send_reply(socket, request.id, result, value);
    }
    case wire::Kind::kWait:
      return send_reply(socket, request.id, carry_out_wait(session, request.wait, gone));
    case wire::Kind::kDescribe: {
      std::string text = session.describe(request.describe.core);
      text.resize(std::min(text.size(), wire::kMaxInlineData));
      const wire::Bytes data = {text.data(), text.size()};
      return send_answer(socket, request.id, 0, {}, {&data, 1}, false);
    }
    default:
      fail(-EPROTO, "a message of kind %u cannot come here", static_cast<unsigned>(request.kind));
      return send_reply(socket, request.id, -EPROTO);
  }
}

}  // namespace

int fail_of(const std::exception& failure) {
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) {
    return fail(-ENOMEM, "the daemon is out of memory");
  }
  return fail(-EIO, "the daemon has given the call up: %s", failure.what());
}

int carry_out_question(service::Instance& instance, int socket, const Request& request) {
  try {
    std::string answer;
    uint64_t next = 0;
    const int result =
        service::observe(instance, request.observe.question, wire::kMaxInlineData, answer, next);
    if (result != 0) return send_reply(socket, request.id, result);
    auto reply = wire::message<wire::Reply>(wire::Kind::kReply, request.id, 0, answer.size());
    reply.numbers[0] = next;
    reply.data_bytes = answer.size();
    const iovec parts[] = {{&reply, sizeof(reply)}, {answer.data(), answer.size()}};
    return base::send_packet(socket, parts, {}, kReplyPatienceMs);
  } catch (const std::exception& failure) {
    return send_reply(socket, request.id, fail_of(failure));
  }
}

int send_reply(int socket, uint32_t id, int result, uint64_t first, uint64_t second, int file) {
  const char* sentence = result < 0 ? service::last_error() : "";
  const size_t length = std::min(std::strlen(sentence), wire::kMaxSentence);
  auto reply = wire::message<wire::Reply>(wire::Kind::kReply, id, 0, length);
  reply.result = result;
  reply.sentence_bytes = static_cast<uint32_t>(length);
  reply.numbers[0] = first;
  reply.numbers[1] = second;
  const iovec parts[] = {{&reply, sizeof(reply)}, {const_cast<char*>(sentence), length}};
  return base::send_packet(socket, parts,
                           file < 0 ? std::span<const int>() : std::span<const int>(&file, 1),
                           kReplyPatienceMs);
}

int carry_out(service::Session& session, int socket, Call& call, CallBudget& budget,
              const std::atomic<bool>& gone) {
  try {
    return carry_out_known(session, socket, call, budget, gone);
  } catch (const std::exception& failure) {
    return send_reply(socket, call.request.id, fail_of(failure));
  }
}

}  // namespace neuron::transport
