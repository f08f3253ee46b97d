// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/shared_transfer.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "driver/ndl/error.h"
#include "driver/wire/wire_ioctl.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::ndl {
namespace {

// Of a copy in messages: what the memory files of both sides then hold.
constexpr uint64_t kPiece = 4u << 20;
constexpr size_t kSpareFiles = 4;
// Of allocations; the host lets a process have some 65,000.
constexpr size_t kMostMappings = 8192;
// Parts of one message; more are joined.
constexpr size_t kMostParts = 64;

// Moves parts to or from the beginning of a file. Negative errno; buffers that are no memory of
// this process give -EFAULT.
int transfer(int fd, const std::vector<wire::Bytes>& parts, bool write) {
  uint64_t offset = 0;
  for (const wire::Bytes& part : parts) {
    for (uint64_t done = 0; done < part.size;) {
      auto* at = static_cast<std::byte*>(part.address) + done;
      const auto position = static_cast<off_t>(offset + done);
      const ssize_t moved = write ? ::pwrite(fd, at, part.size - done, position)
                                  : ::pread(fd, at, part.size - done, position);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) {
        return fail(moved < 0 ? -errno : -EIO, "the data of a call cannot be %s: %s",
                    write ? "written to the file that carries it" : "read from its file",
                    moved < 0 ? std::strerror(errno) : "the file is too short");
      }
      done += static_cast<uint64_t>(moved);
    }
    offset += part.size;
  }
  return 0;
}

}  // namespace

SharedTransfer::SharedTransfer(SharedChannel& channel, bool may_map)
    : channel_(channel), may_map_(may_map) {}

base::FileDescriptor SharedTransfer::take_file() {
  {
    const std::lock_guard lock(mutex_);
    if (!files_.empty()) {
      base::FileDescriptor file = std::move(files_.back());
      files_.pop_back();
      return file;
    }
  }
  return base::FileDescriptor(
      base::above_standard_streams(::memfd_create("neuron-call", MFD_CLOEXEC)));
}

void SharedTransfer::keep_file(base::FileDescriptor file) {
  const std::lock_guard lock(mutex_);
  if (files_.size() < kSpareFiles) files_.push_back(std::move(file));
}

int SharedTransfer::send(unsigned long request, void* argument) {
  wire::OutgoingCall outgoing;
  if (const int error = outgoing.prepare(request, argument)) {
    return fail(error, "call %#lx has more than %llu MiB of data; make several calls", request,
                static_cast<unsigned long long>(wire::kMaxData >> 20));
  }
  const bool in_file = outgoing.in_bytes() > wire::kMaxInlineData;
  const bool needs_file = in_file || outgoing.out_bytes() > wire::kMaxInlineData;
  base::FileDescriptor file;
  if (needs_file) {
    file = take_file();
    if (!file) {
      return fail(-errno, "no memory file for the data of a call: %s", std::strerror(errno));
    }
  }
  if (in_file) {
    // The host would end the process with a signal instead of refusing the write.
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && outgoing.in_bytes() > limit.rlim_cur) {
      return fail(-EFBIG,
                  "the data of a call has %llu bytes, and files of this process may have %llu; "
                  "raise its limit of file sizes (ulimit -f)",
                  static_cast<unsigned long long>(outgoing.in_bytes()),
                  static_cast<unsigned long long>(limit.rlim_cur));
    }
    if (const int error = transfer(file.get(), outgoing.in(), true)) return error;
  }
  uint16_t flags = in_file ? wire::kFlagDataInFile : 0;
  if (argument == nullptr) flags |= wire::kFlagNoArgument;
  auto message = wire::message<wire::IoctlRequest>(
      wire::Kind::kIoctl, 0, flags,
      outgoing.argument().size() + (in_file ? 0 : outgoing.in_bytes()));
  message.request = request;
  message.argument_bytes = static_cast<uint32_t>(outgoing.argument().size());
  message.pointers = outgoing.pointers();
  message.data_bytes = outgoing.in_bytes();
  std::vector<iovec> parts = {
      {&message, sizeof(message)},
      {const_cast<std::byte*>(outgoing.argument().data()), outgoing.argument().size()}};
  std::vector<std::byte> joined;
  if (!in_file && outgoing.in().size() <= kMostParts) {
    for (const wire::Bytes& part : outgoing.in()) parts.push_back({part.address, part.size});
  } else if (!in_file) {
    for (const wire::Bytes& part : outgoing.in()) {
      const auto* begin = static_cast<const std::byte*>(part.address);
      joined.insert(joined.end(), begin, begin + part.size);
    }
    parts.push_back({joined.data(), joined.size()});
  }
  const int fd = file.get();
  SharedAnswer answer;
  const int result = channel_.call(
      parts, needs_file ? std::span<const int>(&fd, 1) : std::span<const int>(), answer);
  // Some calls fill in their argument although they fail.
  if (!answer.packet.empty()) outgoing.finish(answer.argument);
  if (result != 0) return result;
  if (answer.reply.data_bytes != outgoing.out_bytes()) {
    return fail(-EPROTO, "the daemon at %s has sent %llu bytes of data instead of %llu",
                channel_.path().c_str(), static_cast<unsigned long long>(answer.reply.data_bytes),
                static_cast<unsigned long long>(outgoing.out_bytes()));
  }
  if ((answer.reply.header.flags & wire::kFlagDataInFile) != 0) {
    if (!file) {
      return fail(-EPROTO, "the daemon at %s has used a file that it was not given",
                  channel_.path().c_str());
    }
    if (const int error = transfer(file.get(), outgoing.out(), false)) return error;
  } else {
    std::span<const std::byte> data = answer.data;
    for (const wire::Bytes& part : outgoing.out()) {
      std::memcpy(part.address, data.data(), part.size);
      data = data.subspan(part.size);
    }
  }
  if (file) keep_file(std::move(file));
  return 0;
}

SharedTransfer::Mapping::~Mapping() {
  if (memory != nullptr) ::munmap(memory, bytes);
}

SharedTransfer::MappingPointer SharedTransfer::map(base::FileDescriptor file, uint64_t number) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0 || status.st_size <= 0) return nullptr;
  const auto mapping = std::make_shared<Mapping>();
  const auto bytes = static_cast<uint64_t>(status.st_size);
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  // A process with a limit on its address space copies in messages.
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, bytes, MADV_DONTFORK);
  ::madvise(memory, bytes, MADV_DONTDUMP);
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  mapping->memory = static_cast<std::byte*>(memory);
  mapping->bytes = bytes;
  mapping->number = number;
  return mapping;
}

SharedTransfer::MappingPointer SharedTransfer::known(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(handle);
  return found == mappings_.end() ? nullptr : found->second;
}

void SharedTransfer::keep(uint64_t handle, MappingPointer mapping) {
  const std::lock_guard lock(mutex_);
  // One that is dropped is mapped again when it is next used.
  if (mappings_.size() >= kMostMappings) mappings_.erase(mappings_.begin());
  mappings_[handle].swap(mapping);
}

void SharedTransfer::forget(uint64_t handle) {
  MappingPointer last;  // unmapped without the lock
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(handle);
  if (found == mappings_.end()) return;
  last = std::move(found->second);
  mappings_.erase(found);
}

int SharedTransfer::copy_mapped(const Copy& copy) {
  if (!may_map_ || copy.size <= wire::kMaxInlineData || copy.buffer == nullptr) return 1;
  MappingPointer mapping = known(copy.handle);
  auto message = wire::message<wire::ResolveRequest>(wire::Kind::kResolve, 0);
  message.handle = copy.handle;
  message.offset = copy.offset;
  message.size = copy.size;
  message.known = mapping == nullptr ? 0 : mapping->number;
  const iovec part = {&message, sizeof(message)};
  SharedAnswer answer;
  // What is refused here is refused by the call itself, too, in its own words.
  if (channel_.call({&part, 1}, {}, answer) != 0) return channel_.gone() ? -ENODEV : 1;
  const uint64_t number = answer.reply.numbers[0], offset = answer.reply.numbers[1];
  if (mapping == nullptr || mapping->number != number) {
    mapping = answer.files[0] ? map(std::move(answer.files[0]), number) : nullptr;
    if (mapping == nullptr) return 1;
    keep(copy.handle, mapping);
  }
  if (offset > mapping->bytes || copy.size > mapping->bytes - offset) return 1;
  std::byte* const memory = mapping->memory;
  if (copy.to_device) {
    std::memcpy(memory + offset, copy.buffer, copy.size);
  } else {
    std::memcpy(copy.buffer, memory + offset, copy.size);
  }
  return 0;
}

template <typename T>
int SharedTransfer::copy(unsigned long request, T& argument, uint32_t to_device) {
  const Copy whole = {argument.mem_handle, argument.offset, argument.size,
                      static_cast<std::byte*>(argument.buffer), to_device != 0};
  if (const int result = copy_mapped(whole); result <= 0) return result;
  T piece = argument;
  uint64_t done = 0;
  do {
    piece.buffer = whole.buffer == nullptr ? nullptr : whole.buffer + done;
    const uint64_t at = whole.offset + done;
    piece.offset = static_cast<decltype(piece.offset)>(at);
    piece.size = static_cast<decltype(piece.size)>(std::min(whole.size - done, kPiece));
    if (const int result = send(request, &piece)) return result;
    done += piece.size;
  } while (done < whole.size);
  return 0;
}

int SharedTransfer::copy_batches(unsigned long request, void* argument) {
  auto& all = *static_cast<neuron_ioctl_mem_buf_copy64zc_batches*>(argument);
  uint64_t total = 0;
  bool sound = all.batches_ptr != nullptr && all.num_batches != 0;
  for (uint32_t i = 0; sound && i < all.num_batches; ++i) {
    const neuron_memcpy_batch_t& batch = all.batches_ptr[i];
    sound = batch.ops_ptr != nullptr && batch.num_ops != 0;
    total += sizeof(batch) + batch.num_ops * sizeof(nrt_tensor_batch_op_t);
    for (uint32_t k = 0; sound && k < batch.num_ops; ++k) total += batch.ops_ptr[k].size;
  }
  // A call that fits a message, or that is to be refused, goes as it is.
  if (!sound || total <= wire::kMaxInlineData) return send(request, argument);
  const bool default_queue = all.h2t_qid == NEURON_DMA_H2T_DEFAULT_QID || all.h2t_qid == 0;
  for (uint32_t i = 0; i < all.num_batches; ++i) {
    neuron_memcpy_batch_t batch = all.batches_ptr[i];
    for (uint32_t k = 0; k < all.batches_ptr[i].num_ops; ++k) {
      nrt_tensor_batch_op_t op = all.batches_ptr[i].ops_ptr[k];
      const Copy whole = {batch.mem_handle, batch.mem_handle_offset + op.offset, op.size,
                          static_cast<std::byte*>(op.buffer), all.is_copy_to_device != 0};
      const int result = default_queue && whole.offset >= op.offset ? copy_mapped(whole) : 1;
      if (result < 0) return result;
      if (result == 0) continue;
      neuron_ioctl_mem_buf_copy64zc_batches one = all;
      one.batches_ptr = &batch;
      one.num_batches = 1;
      batch.ops_ptr = &op;
      batch.num_ops = 1;
      uint64_t done = 0;
      do {
        op.buffer = whole.buffer == nullptr ? nullptr : whole.buffer + done;
        op.offset = all.batches_ptr[i].ops_ptr[k].offset + done;
        op.size = std::min(whole.size - done, kPiece);
        if (const int error = send(request, &one)) return error;
        done += op.size;
      } while (done < whole.size);
    }
  }
  return 0;
}

int SharedTransfer::ioctl(unsigned long request, void* argument) {
  if (channel_.gone()) return channel_.fail_gone();
  if (argument == nullptr) return send(request, argument);
  switch (request) {
    case NEURON_IOCTL_MEM_BUF_COPY: {
      auto& copied = *static_cast<neuron_ioctl_mem_buf_copy*>(argument);
      return copy(request, copied, copied.copy_to_mem_handle);
    }
    case NEURON_IOCTL_MEM_BUF_COPY64:
    case NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24: {
      auto& copied = *static_cast<neuron_ioctl_mem_buf_copy64*>(argument);
      return copy(request, copied, copied.copy_to_mem_handle);
    }
    case NEURON_IOCTL_MEM_BUF_ZEROCOPY64: {
      auto& copied = *static_cast<neuron_ioctl_mem_buf_copy64zc*>(argument);
      // Other queues do not exist, which the driver has to say.
      if (copied.h2t_qid != NEURON_DMA_H2T_DEFAULT_QID && copied.h2t_qid != 0) {
        return send(request, argument);
      }
      return copy(request, copied, copied.is_copy_to_device);
    }
    case NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES:
      return copy_batches(request, argument);
    case NEURON_IOCTL_MEM_FREE:
      // Before, because another thread may get the handle for other memory at once.
      forget(static_cast<neuron_ioctl_mem_free*>(argument)->mem_handle);
      return send(request, argument);
    default:
      return send(request, argument);
  }
}

}  // namespace neuron::ndl
