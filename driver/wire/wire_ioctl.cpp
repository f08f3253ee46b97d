// SPDX-License-Identifier: Apache-2.0
#include "driver/wire/wire_ioctl.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "uapi/neuron_ioctl.h"

namespace neuron::wire {
namespace {

constexpr uint64_t kUserSpaceEnd = uint64_t{1} << 47;
// Buffers from this size on are given back to the host at once.
constexpr uint64_t kMappedBytes = 1u << 20;
// Buffers of one call, many times what fits a message, and what each takes beside its data: of the
// heap, and of the lists that name it.
constexpr size_t kMaxParts = 1u << 16;
constexpr uint64_t kPartBytes = 96;

uint64_t read_field(const std::byte* argument, const Field& field) {
  uint64_t value = 0;  // little-endian: the low bytes
  std::memcpy(&value, argument + field.offset, field.bytes);
  return value;
}

uint64_t read_pointer(const std::byte* argument, uint16_t field) {
  return read_field(argument, {field, sizeof(uint64_t)});
}

void write_pointer(std::byte* argument, uint16_t field, uint64_t value) {
  std::memcpy(argument + field, &value, sizeof(value));
}

Way way_of(const PointerRule& rule, const std::byte* argument) {
  if (rule.way != Way::kByFlag) return rule.way;
  return read_field(argument, rule.flag) != 0 ? Way::kIn : Way::kOut;
}

// Bytes that a pointer leads to; UINT64_MAX for more than any call may carry.
uint64_t size_of(const PointerRule& rule, const std::byte* argument) {
  if (rule.count.bytes == 0) return rule.element;
  const uint64_t count = read_field(argument, rule.count);
  return count > kMaxData ? UINT64_MAX : rule.extra + count * rule.element;
}

PointerState state_of(uint64_t pointer, uint64_t size) {
  if (pointer == 0) return PointerState::kNull;
  return size > kUserSpaceEnd || pointer > kUserSpaceEnd - size ? PointerState::kBad
                                                                : PointerState::kValid;
}

// What a driver finds where a client had a pointer that leads nowhere.
uint64_t useless(PointerState state) { return state == PointerState::kNull ? 0 : UINT64_MAX; }

}  // namespace

// --- client ---------------------------------------------------------------------------------

int OutgoingCall::add(std::vector<Bytes>& list, uint64_t& total, void* address, uint64_t size) {
  if (size > kMaxData || total > kMaxData - size) return -E2BIG;
  if (size != 0) list.push_back({address, size});
  total += size;
  return 0;
}

int OutgoingCall::prepare(uint64_t request, void* argument) {
  rule_ = find_ioctl(request);
  if (rule_ == nullptr || argument == nullptr) return 0;  // the driver says what is wrong with it
  original_ = static_cast<std::byte*>(argument);
  copy_.assign(original_, original_ + rule_->size);
  for (const PointerRule& pointer : rule_->pointers) {
    if (pointer.most == 0 || read_field(copy_.data(), pointer.count) <= pointer.most) continue;
    std::memcpy(copy_.data() + pointer.count.offset, &pointer.most, pointer.count.bytes);
  }
  if (rule_->shape == Shape::kBatches) return prepare_batches();
  if (rule_->shape == Shape::kTail) {
    return add(out_, out_bytes_, original_ + rule_->size,
               size_of(rule_->pointers[0], copy_.data()));
  }
  for (unsigned i = 0; i < 2; ++i) {
    const PointerRule& rule = rule_->pointers[i];
    if (rule.way == Way::kNone) continue;
    const uint64_t size = size_of(rule, copy_.data());
    const uint64_t pointer = read_pointer(copy_.data(), rule.field);
    const uint64_t from = pointer + (rule.skip.bytes ? read_field(copy_.data(), rule.skip) : 0);
    const PointerState state =
        from < pointer ? PointerState::kBad : state_of(pointer, from - pointer + size);
    pointers_ |= static_cast<uint32_t>(state) << (2 * i);
    write_pointer(copy_.data(), rule.field, 0);
    if (state != PointerState::kValid) continue;
    const bool in = way_of(rule, copy_.data()) == Way::kIn;
    if (const int error = add(in ? in_ : out_, in ? in_bytes_ : out_bytes_,
                              reinterpret_cast<void*>(from), size)) {
      return error;
    }
  }
  return 0;
}

int OutgoingCall::prepare_batches() {
  const PointerRule& rule = rule_->pointers[0];
  const bool to_device = read_field(copy_.data(), rule.flag) != 0;
  const uint64_t size = size_of(rule, copy_.data());
  const uint64_t pointer = read_pointer(copy_.data(), rule.field);
  const PointerState state = state_of(pointer, size);
  pointers_ = static_cast<uint32_t>(state);
  write_pointer(copy_.data(), rule.field, 0);
  if (state != PointerState::kValid || size == 0) return 0;
  if (size > kMaxData) return -E2BIG;
  const auto copy_array = [&](uint64_t from, uint64_t bytes) {
    const auto* begin = reinterpret_cast<const std::byte*>(from);
    arrays_.emplace_back(begin, begin + bytes);
    return arrays_.back().data();
  };
  // The copies hold 0, 1 or all ones where the client has pointers: PointerState's three cases.
  const auto mark = [](PointerState kind) {
    return reinterpret_cast<void*>(kind == PointerState::kValid ? 1 : useless(kind));
  };
  auto* batches = reinterpret_cast<neuron_memcpy_batch_t*>(copy_array(pointer, size));
  if (const int error = add(in_, in_bytes_, batches, size)) return error;
  for (uint64_t i = 0; i < size / sizeof(*batches); ++i) {
    const auto list = reinterpret_cast<uint64_t>(batches[i].ops_ptr);
    const uint64_t bytes = uint64_t{batches[i].num_ops} * sizeof(nrt_tensor_batch_op_t);
    const PointerState list_state = state_of(list, bytes);
    batches[i].ops_ptr = static_cast<nrt_tensor_batch_op_t*>(mark(list_state));
    batches[i].context = nullptr;
    if (list_state != PointerState::kValid) continue;
    if (bytes > kMaxData) return -E2BIG;
    auto* ops = reinterpret_cast<nrt_tensor_batch_op_t*>(copy_array(list, bytes));
    if (const int error = add(in_, in_bytes_, ops, bytes)) return error;
    for (uint32_t k = 0; k < batches[i].num_ops; ++k) {
      void* const data = ops[k].buffer;
      const PointerState data_state = state_of(reinterpret_cast<uint64_t>(data), ops[k].size);
      ops[k].buffer = mark(data_state);
      if (data_state != PointerState::kValid) continue;
      if (const int error =
              add(to_device ? in_ : out_, to_device ? in_bytes_ : out_bytes_, data, ops[k].size)) {
        return error;
      }
    }
  }
  return 0;
}

void OutgoingCall::finish(std::span<const std::byte> answered) {
  if (rule_ == nullptr || original_ == nullptr || answered.size() != rule_->size) return;
  std::vector<std::byte> result(answered.begin(), answered.end());
  for (const PointerRule& rule : rule_->pointers) {
    if (rule.way != Way::kNone && rule_->shape != Shape::kTail) {
      write_pointer(result.data(), rule.field, read_pointer(original_, rule.field));
    }
    if (rule.most != 0) {
      std::memcpy(result.data() + rule.count.offset, original_ + rule.count.offset,
                  rule.count.bytes);
    }
  }
  std::memcpy(original_, result.data(), result.size());
}

// --- daemon ---------------------------------------------------------------------------------

void FreeBuffer::operator()(std::byte* memory) const {
  if (mapped != 0) {
    ::munmap(memory, mapped);
  } else {
    std::free(memory);
  }
}

IncomingCall::Buffer IncomingCall::make_buffer(uint64_t size) {
  // A heap would keep what large ones have taken.
  if (size >= kMappedBytes) {
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    // A page at a time, it would take longer to come than the data.
    (void)::madvise(memory, size, MADV_HUGEPAGE);
    return {static_cast<std::byte*>(memory), FreeBuffer{size}};
  }
  // One byte more, so that nothing still has an address.
  Buffer memory(static_cast<std::byte*>(std::calloc(1, size + 1)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

std::byte* IncomingCall::buffer(uint64_t size) {
  buffers_.push_back(make_buffer(size));
  return buffers_.back().get();
}

uint64_t IncomingCall::least_room(uint64_t request, uint64_t data_bytes) {
  const IoctlRule* const rule = find_ioctl(request);
  if (rule == nullptr || rule->shape != Shape::kBatches) return data_bytes;
  // Each buffer has a descriptor in what comes with the call.
  return data_bytes +
         std::min<uint64_t>(data_bytes / sizeof(nrt_tensor_batch_op_t), kMaxParts) * kPartBytes;
}

int IncomingCall::take_in(uint64_t size, uint64_t& left, DataSource& data, std::byte*& memory) {
  if (size > left) return -EPROTO;
  if (buffers_.size() >= kMaxParts) return -E2BIG;
  memory = buffer(size);
  if (size != 0 && !data.read(memory, size)) return -EPROTO;
  left -= size;
  return 0;
}

int IncomingCall::make_out(uint64_t size, std::byte*& memory) {
  if (size > kMaxData || out_bytes_ > kMaxData - size || buffers_.size() >= kMaxParts) {
    return -E2BIG;
  }
  out_bytes_ += size;
  if (out_bytes_ > out_room_) return 0;  // only counted from here on
  memory = buffer(size);
  if (size != 0) out_.push_back({memory, size});
  return 0;
}

int IncomingCall::add(const PointerRule& rule, PointerState state, uint64_t& left,
                      DataSource& data) {
  std::byte* const argument = copy_.get();
  if (state != PointerState::kValid) {
    write_pointer(argument, rule.field, useless(state));
    return 0;
  }
  const uint64_t size = size_of(rule, argument);
  std::byte* memory = nullptr;
  const int error = way_of(rule, argument) == Way::kIn ? take_in(size, left, data, memory)
                                                       : make_out(size, memory);
  if (error != 0) return error;
  const uint64_t skip = rule.skip.bytes ? read_field(argument, rule.skip) : 0;
  write_pointer(argument, rule.field, reinterpret_cast<uint64_t>(memory) - skip);
  return 0;
}

int IncomingCall::accept_batches(PointerState state, uint64_t& left, DataSource& data) {
  const PointerRule& rule = rule_->pointers[0];
  const bool to_device = read_field(copy_.get(), rule.flag) != 0;
  if (const int error = add(rule, state, left, data)) return error;
  if (state != PointerState::kValid) return 0;
  const uint64_t count = read_field(copy_.get(), rule.count);
  auto* batches = reinterpret_cast<neuron_memcpy_batch_t*>(read_pointer(copy_.get(), rule.field));
  for (uint64_t i = 0; i < count; ++i) {
    const auto list = reinterpret_cast<uint64_t>(batches[i].ops_ptr);
    batches[i].context = nullptr;
    if (list != 1) {
      batches[i].ops_ptr = reinterpret_cast<nrt_tensor_batch_op_t*>(
          useless(list == 0 ? PointerState::kNull : PointerState::kBad));
      continue;
    }
    std::byte* memory = nullptr;
    if (const int error = take_in(uint64_t{batches[i].num_ops} * sizeof(nrt_tensor_batch_op_t),
                                  left, data, memory)) {
      return error;
    }
    auto* ops = reinterpret_cast<nrt_tensor_batch_op_t*>(memory);
    batches[i].ops_ptr = ops;
    for (uint32_t k = 0; k < batches[i].num_ops; ++k) {
      const auto mark = reinterpret_cast<uint64_t>(ops[k].buffer);
      if (mark != 1) {
        ops[k].buffer =
            reinterpret_cast<void*>(useless(mark == 0 ? PointerState::kNull : PointerState::kBad));
        continue;
      }
      const int error =
          to_device ? take_in(ops[k].size, left, data, memory) : make_out(ops[k].size, memory);
      if (error != 0) return error;
      ops[k].buffer = memory;
    }
  }
  return 0;
}

int IncomingCall::accept(uint64_t request, std::span<const std::byte> argument, uint32_t pointers,
                         uint64_t data_bytes, DataSource& data, uint64_t room) {
  rule_ = find_ioctl(request);
  if (rule_ == nullptr) return argument.empty() && data_bytes == 0 ? 0 : -EPROTO;
  if (argument.size() != rule_->size || data_bytes > kMaxData) return -EPROTO;
  uint64_t tail = 0;
  if (rule_->shape == Shape::kTail) {
    tail = size_of(rule_->pointers[0], argument.data());
    if (tail > kMaxData) return -E2BIG;
  }
  least_ = least_room(request, data_bytes);
  if (least_ > room) return -ENOBUFS;
  out_room_ = room - least_;
  if (tail > out_room_) {
    out_bytes_ = tail;
    return -ENOBUFS;
  }
  copy_bytes_ = rule_->size;
  uint64_t left = data_bytes;
  try {
    copy_ = make_buffer(copy_bytes_ + tail);
    if (!argument.empty()) std::memcpy(copy_.get(), argument.data(), argument.size());
    if (rule_->shape == Shape::kTail) {
      if (tail != 0) out_.push_back({copy_.get() + copy_bytes_, tail});
      out_bytes_ = tail;
    } else if (rule_->shape == Shape::kBatches) {
      if (const int error = accept_batches(static_cast<PointerState>(pointers & 3), left, data)) {
        return error;
      }
    } else {
      for (unsigned i = 0; i < 2; ++i) {
        if (rule_->pointers[i].way == Way::kNone) continue;
        const auto state = static_cast<PointerState>(pointers >> (2 * i) & 3);
        if (const int error = add(rule_->pointers[i], state, left, data)) return error;
      }
    }
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
  if (left != 0) return -EPROTO;
  return out_bytes_ > out_room_ ? -ENOBUFS : 0;
}

std::span<const std::byte> IncomingCall::answer() {
  if (rule_ == nullptr) return {};
  if (rule_->shape != Shape::kTail) {
    for (const PointerRule& rule : rule_->pointers) {
      if (rule.way != Way::kNone) write_pointer(copy_.get(), rule.field, 0);
    }
  }
  return {copy_.get(), copy_bytes_};
}

}  // namespace neuron::wire
