// SPDX-License-Identifier: Apache-2.0
// Arguments of calls as bytes: complete table, and what goes in comes out on the other side.
#include "driver/wire/wire_ioctl.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

#include "driver/core/ioctl_table.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::wire {
namespace {

class Stream final : public DataSource {
 public:
  explicit Stream(const std::vector<Bytes>& parts) {
    for (const Bytes& part : parts) {
      const auto* begin = static_cast<const std::byte*>(part.address);
      bytes_.insert(bytes_.end(), begin, begin + part.size);
    }
  }
  bool read(void* to, uint64_t size) override {
    if (size > bytes_.size() - at_) return false;
    std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
    return true;
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
};

void set(std::byte* argument, const Field& field, uint64_t value) {
  std::memcpy(argument + field.offset, &value, field.bytes);
}

uint64_t get(const void* argument, uint16_t offset) {
  uint64_t value = 0;
  std::memcpy(&value, static_cast<const std::byte*>(argument) + offset, sizeof(value));
  return value;
}

TEST(WireIoctl, EveryCallOfTheDriverHasARowOfTheSameSize) {
  unsigned found = 0;
  for (unsigned nr = 0; nr < 256; ++nr) {
    for (unsigned direction = 0; direction < 4; ++direction) {
      for (unsigned size = 0; size < 512; ++size) {
        const nd_ioctl* call = nullptr;
        (void)nd_ioctl_find(_IOC(direction, NEURON_IOCTL_BASE, nr, size), &call);
        if (call == nullptr) break;  // no call has this number
        const IoctlRule* rule = find_ioctl(call->request);
        ASSERT_NE(rule, nullptr) << call->name;
        EXPECT_EQ(rule->size, call->argument_size) << call->name;
        ++found;
      }
    }
  }
  EXPECT_GT(found, 1000u);
  for (const IoctlRule& rule : all_ioctls()) {
    const nd_ioctl* call = nullptr;
    EXPECT_EQ(nd_ioctl_find(rule.request, &call), 0) << std::hex << rule.request;
    ASSERT_NE(call, nullptr) << std::hex << rule.request;
    EXPECT_EQ(rule.size, call->argument_size) << call->name;
  }
}

TEST(WireIoctl, DataAndAnswersOfEveryCallArriveWhereTheyBelong) {
  std::mt19937 random(4);
  for (const IoctlRule& rule : all_ioctls()) {
    if (rule.shape != Shape::kFlat) continue;
    for (unsigned round = 0; round < 20; ++round) {
      SCOPED_TRACE(rule.request);
      std::vector<std::byte> argument(rule.size);
      for (std::byte& byte : argument) byte = static_cast<std::byte>(random());
      std::vector<std::byte> buffers[2], before[2];
      for (unsigned i = 0; i < 2; ++i) {
        const PointerRule& pointer = rule.pointers[i];
        if (pointer.way == Way::kNone) continue;
        const uint64_t count = random() % 40;
        if (pointer.count.bytes) set(argument.data(), pointer.count, i == 0 ? count : 7);
        if (pointer.skip.bytes) set(argument.data(), pointer.skip, 3);
      }
      for (unsigned i = 0; i < 2; ++i) {
        const PointerRule& pointer = rule.pointers[i];
        if (pointer.way == Way::kNone) continue;
        buffers[i].resize(4096 + 16);
        for (std::byte& byte : buffers[i]) byte = static_cast<std::byte>(random());
        before[i] = buffers[i];
        set(argument.data(), {pointer.field, 8}, reinterpret_cast<uint64_t>(buffers[i].data()));
      }
      const std::vector<std::byte> original = argument;
      OutgoingCall outgoing;
      ASSERT_EQ(outgoing.prepare(rule.request, argument.data()), 0);
      Stream stream(outgoing.in());
      ASSERT_EQ(stream.size(), outgoing.in_bytes());
      IncomingCall incoming;
      ASSERT_EQ(incoming.accept(rule.request, outgoing.argument(), outgoing.pointers(),
                                stream.size(), stream),
                0);
      ASSERT_EQ(incoming.out_bytes(), outgoing.out_bytes());
      // The daemon works on buffers of its own that hold what ours do.
      uint64_t seen = 0;
      for (unsigned i = 0; i < 2; ++i) {
        const PointerRule& pointer = rule.pointers[i];
        if (pointer.way == Way::kNone) continue;
        const uint64_t skip = pointer.skip.bytes ? 3 : 0;
        const auto* theirs =
            reinterpret_cast<const std::byte*>(get(incoming.argument(), pointer.field) + skip);
        ASSERT_NE(theirs, buffers[i].data() + skip);
        for (const Bytes& part : outgoing.in()) {
          if (part.address == buffers[i].data() + skip) {
            EXPECT_EQ(std::memcmp(theirs, part.address, part.size), 0);
            seen += part.size;
          }
        }
      }
      EXPECT_EQ(seen, outgoing.in_bytes());
      for (const Bytes& part : incoming.out()) std::memset(part.address, 0xA5, part.size);
      const auto answer = incoming.answer();
      for (unsigned i = 0; i < 2; ++i) {
        if (rule.pointers[i].way != Way::kNone) {
          EXPECT_EQ(get(answer.data(), rule.pointers[i].field), 0u) << "an address of the daemon";
        }
      }
      outgoing.finish(answer);
      EXPECT_EQ(argument, original) << "nothing was answered, so nothing changes";
      ASSERT_EQ(incoming.out().size(), outgoing.out().size());
      for (size_t i = 0; i < outgoing.out().size(); ++i) {
        EXPECT_EQ(incoming.out()[i].size, outgoing.out()[i].size);
      }
    }
  }
}

TEST(WireIoctl, BatchesOfTransfersTakeTheirArraysAndDataAlong) {
  char first[100], second[50];
  std::memset(first, 1, sizeof(first));
  std::memset(second, 2, sizeof(second));
  nrt_tensor_batch_op_t a[2] = {{0, sizeof(first), first}, {64, 4, nullptr}};
  nrt_tensor_batch_op_t b[1] = {{8, sizeof(second), second}};
  neuron_memcpy_batch_t batches[3] = {};
  batches[0].ops_ptr = a;
  batches[0].num_ops = 2;
  batches[1].ops_ptr = b;
  batches[1].num_ops = 1;
  batches[2].num_ops = 9;
  for (const bool to_device : {true, false}) {
    neuron_ioctl_mem_buf_copy64zc_batches argument = {};
    argument.batches_ptr = batches;
    argument.num_batches = 3;
    argument.is_copy_to_device = to_device;
    OutgoingCall outgoing;
    ASSERT_EQ(outgoing.prepare(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &argument), 0);
    Stream stream(outgoing.in());
    IncomingCall incoming;
    ASSERT_EQ(incoming.accept(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, outgoing.argument(),
                              outgoing.pointers(), stream.size(), stream),
              0);
    const auto& theirs = *static_cast<neuron_ioctl_mem_buf_copy64zc_batches*>(incoming.argument());
    ASSERT_NE(theirs.batches_ptr, batches);
    const auto* ops = theirs.batches_ptr[0].ops_ptr;
    ASSERT_NE(ops, a);
    EXPECT_NE(ops[0].buffer, first);
    EXPECT_EQ(ops[1].buffer, nullptr);
    EXPECT_EQ(theirs.batches_ptr[2].ops_ptr, nullptr);
    const auto* last = static_cast<const char*>(theirs.batches_ptr[1].ops_ptr[0].buffer);
    EXPECT_EQ(last[49], to_device ? 2 : 0);
    EXPECT_EQ(incoming.out_bytes(), to_device ? 0u : sizeof(first) + sizeof(second));
  }
}

TEST(WireIoctl, ACallThatNeedsMoreRoomSaysHowMuchAndIsAcceptedWithIt) {
  constexpr uint64_t kBytes = 3 << 20;
  std::vector<char> data(kBytes, 5);
  nrt_tensor_batch_op_t ops[2] = {{0, kBytes, data.data()}, {0, 100, data.data()}};
  neuron_memcpy_batch_t batch = {};
  batch.ops_ptr = ops;
  batch.num_ops = 2;
  for (const bool to_device : {true, false}) {
    neuron_ioctl_mem_buf_copy64zc_batches argument = {};
    argument.batches_ptr = &batch;
    argument.num_batches = 1;
    argument.is_copy_to_device = to_device;
    OutgoingCall outgoing;
    ASSERT_EQ(outgoing.prepare(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &argument), 0);
    const auto accept = [&](IncomingCall& incoming, uint64_t room) {
      Stream stream(outgoing.in());
      return incoming.accept(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, outgoing.argument(),
                             outgoing.pointers(), outgoing.in_bytes(), stream, room);
    };
    IncomingCall refused;
    EXPECT_EQ(accept(refused, 65536), -ENOBUFS);
    EXPECT_GE(refused.needed(), kBytes + 100);
    EXPECT_LT(refused.needed(), kBytes + (7 << 20)) << "with lists of 65536 pieces";
    EXPECT_GE(refused.needed(), IncomingCall::least_room(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES,
                                                         outgoing.in_bytes()));
    IncomingCall again, accepted;
    EXPECT_EQ(accept(again, refused.needed() - 1), -ENOBUFS);
    ASSERT_EQ(accept(accepted, refused.needed()), 0);
    const auto& theirs = *static_cast<neuron_ioctl_mem_buf_copy64zc_batches*>(accepted.argument());
    const auto* first = static_cast<const char*>(theirs.batches_ptr[0].ops_ptr[0].buffer);
    EXPECT_EQ(first[kBytes - 1], to_device ? 5 : 0);
    EXPECT_EQ(accepted.out_bytes(), to_device ? 0u : kBytes + 100);
  }
}

TEST(WireIoctl, ACallOfMorePiecesThanAnyClientHasIsRefused) {
  std::vector<nrt_tensor_batch_op_t> ops(70'000, {0, 1, &ops});
  neuron_memcpy_batch_t batch = {};
  batch.ops_ptr = ops.data();
  batch.num_ops = static_cast<uint32_t>(ops.size());
  neuron_ioctl_mem_buf_copy64zc_batches argument = {};
  argument.batches_ptr = &batch;
  argument.num_batches = 1;
  OutgoingCall outgoing;
  ASSERT_EQ(outgoing.prepare(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &argument), 0);
  Stream stream(outgoing.in());
  IncomingCall incoming;
  EXPECT_EQ(incoming.accept(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, outgoing.argument(),
                            outgoing.pointers(), stream.size(), stream),
            -E2BIG);
}

TEST(WireIoctl, SizesThatDoNotAgreeAreRefused) {
  neuron_ioctl_mem_buf_copy64 argument = {};
  char data[8] = {};
  argument.buffer = data;
  argument.size = 8;
  argument.copy_to_mem_handle = 1;
  OutgoingCall outgoing;
  ASSERT_EQ(outgoing.prepare(NEURON_IOCTL_MEM_BUF_COPY64, &argument), 0);
  const auto accept = [&](std::span<const std::byte> bytes, uint64_t promised) {
    Stream stream(outgoing.in());
    IncomingCall incoming;
    return incoming.accept(NEURON_IOCTL_MEM_BUF_COPY64, bytes, outgoing.pointers(), promised,
                           stream);
  };
  EXPECT_EQ(accept(outgoing.argument(), 8), 0);
  EXPECT_EQ(accept(outgoing.argument(), 7), -EPROTO);
  EXPECT_EQ(accept(outgoing.argument(), 9), -EPROTO);
  EXPECT_EQ(accept(outgoing.argument().first(39), 8), -EPROTO);
  EXPECT_EQ(accept({}, 0), -EPROTO);
  argument.size = uint64_t{1} << 40;
  OutgoingCall large;
  EXPECT_EQ(large.prepare(NEURON_IOCTL_MEM_BUF_COPY64, &argument), 0);  // the driver refuses it
  EXPECT_EQ(large.in_bytes(), 0u);
  argument.size = kMaxData + 1;
  argument.copy_to_mem_handle = 0;
  OutgoingCall read;
  EXPECT_EQ(read.prepare(NEURON_IOCTL_MEM_BUF_COPY64, &argument), 0);
}

TEST(WireIoctl, PointersThatLeadNowhereStayRecognisable) {
  neuron_ioctl_mem_buf_copy64 argument = {};
  argument.size = 8;
  argument.buffer = reinterpret_cast<void*>(~uint64_t{0} - 3);
  OutgoingCall outgoing;
  ASSERT_EQ(outgoing.prepare(NEURON_IOCTL_MEM_BUF_COPY64, &argument), 0);
  Stream stream(outgoing.in());
  IncomingCall incoming;
  ASSERT_EQ(incoming.accept(NEURON_IOCTL_MEM_BUF_COPY64, outgoing.argument(), outgoing.pointers(),
                            0, stream),
            0);
  EXPECT_EQ(get(incoming.argument(), offsetof(neuron_ioctl_mem_buf_copy64, buffer)), ~uint64_t{0});
}

}  // namespace
}  // namespace neuron::wire
