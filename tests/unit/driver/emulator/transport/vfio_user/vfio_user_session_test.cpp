// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_session.h"

#include <gmock/gmock.h>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/hbm.h"
#include "tests/unit/driver/emulator/transport/vfio_user/vfio_user_client.h"

namespace neuron::transport {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMebi = 1 << 20;
constexpr uint32_t kBar0 = 0;
constexpr uint32_t kBar4 = 4;
constexpr uint32_t kMarker = 0xABCDEF01;
constexpr size_t kM2s = 0x10000;
constexpr size_t kS2m = 0x20000;
constexpr uint64_t kHost = NEURON_V2_HOST_BASE;

TEST(VfioUserSession, AgreesOnTheVersionAndSaysWhatItTakes) {
  ServedFunction served;
  const ClientReply reply = served.client->agree();
  ASSERT_TRUE(reply.arrived);
  EXPECT_EQ(reply.error(), 0u);
  EXPECT_EQ(reply.as<wire::Version>().major, 0u);
  EXPECT_EQ(reply.as<wire::Version>().minor, 0u);
  const std::string text(reinterpret_cast<const char*>(reply.body.data()) + sizeof(wire::Version));
  EXPECT_EQ(reply.body.back(), std::byte{0});
  EXPECT_THAT(text, HasSubstr("\"max_msg_fds\":16"));
  EXPECT_THAT(text, HasSubstr("\"max_data_xfer_size\":1048576"));
}

TEST(VfioUserSession, EndsWithAClientThatBeginsWithAnythingElse) {
  ServedFunction served;
  const ClientReply reply = served.client->ask(wire::kDeviceInfo, wire::DeviceInfo{});
  EXPECT_EQ(reply.error(), static_cast<uint32_t>(EINVAL));
  EXPECT_FALSE(served.client->receive().arrived);
  served.finish();
  EXPECT_THAT(served.session->ended(), HasSubstr("not the version"));
}

TEST(VfioUserSession, EndsWithAClientOfAnotherMajorVersion) {
  ServedFunction served;
  EXPECT_EQ(served.client->ask(wire::kVersion, wire::Version{1, 0}).error(),
            static_cast<uint32_t>(EINVAL));
  served.finish();
  EXPECT_THAT(served.session->ended(), HasSubstr("version 1.0"));
}

class VfioUserTest : public testing::Test {
 protected:
  explicit VfioUserTest(MapLevel level = MapLevel::kMemory)
      : served(ServedFunction::options(level)), client(*served.client) {
    EXPECT_EQ(client.agree().error(), 0u);
  }
  // Guest memory at 0, bus mastering, the host's copy queue set up.
  void bring_up() {
    ASSERT_EQ(client.map(0, 4 * kMebi, ram.file()).error(), 0u);
    client.enable();
    client.init_queue(kM2s, kS2m, 64);
    settle();
  }
  // Some register writes are answered before they happen; this is answered after them.
  void settle() { (void)client.get<uint16_t>(wire::kConfigRegion, 0); }
  void ring(uint32_t count) {
    client.set_reg(VfioUserClient::queue(true) + NEURON_UDMAQ_TAIL_INC, count);
    client.set_reg(VfioUserClient::queue(false) + NEURON_UDMAQ_TAIL_INC, count);
    settle();
  }
  uint32_t head() {
    return client.reg(VfioUserClient::queue(false) + NEURON_UDMAQ_HEAD) & 0xFFFFFF;
  }

  ServedFunction served;
  VfioUserClient& client;
  GuestRam ram{4 * kMebi};
};

class VfioUserConfigurationTest : public VfioUserTest {
 protected:
  VfioUserConfigurationTest() : VfioUserTest(MapLevel::kConfiguration) {}
};

TEST_F(VfioUserTest, DescribesAResettablePciDevice) {
  const ClientReply reply = client.ask(wire::kDeviceInfo, wire::DeviceInfo{16, 0, 0, 0});
  const auto info = reply.as<wire::DeviceInfo>();
  EXPECT_EQ(info.flags, 3u);
  EXPECT_EQ(info.regions, 9u);
  EXPECT_EQ(info.irqs, 5u);
}

TEST_F(VfioUserTest, HasNoInterruptsAndRefusesErrorOnes) {
  for (uint32_t index = 0; index < 3; ++index) {
    EXPECT_EQ(client.ask(wire::kIrqInfo, wire::IrqInfo{16, 0, index, 0}).as<wire::IrqInfo>().count,
              0u);
  }
  EXPECT_EQ(client.ask(wire::kIrqInfo, wire::IrqInfo{16, 0, 3, 0}).error(),
            static_cast<uint32_t>(EINVAL));
  EXPECT_EQ(client.ask(wire::kSetIrqs, wire::IrqSet{20, 0x21, 2, 0, 0}).error(), 0u);
  EXPECT_EQ(client.ask(wire::kSetIrqs, wire::IrqSet{20, 0x24, 2, 0, 1}).error(),
            static_cast<uint32_t>(EINVAL));
}

TEST_F(VfioUserTest, GivesTheSizesOfItsRegions) {
  const uint64_t sizes[9] = {uint64_t{1} << 30, 0, 0, 0, uint64_t{32} << 30, 0, 0, 4096, 0};
  for (uint32_t index = 0; index < 9; ++index) {
    const ClientReply reply =
        client.ask(wire::kRegionInfo, wire::RegionInfo{32, 0, index, 0, 0, 0});
    const auto info = reply.as<wire::RegionInfo>();
    EXPECT_EQ(info.size, sizes[index]) << index;
    EXPECT_EQ(info.index, index);
    EXPECT_EQ(reply.file >= 0, index == kBar4);
    if (reply.file >= 0) close(reply.file);
  }
  EXPECT_EQ(client.ask(wire::kRegionInfo, wire::RegionInfo{32, 0, 9, 0, 0, 0}).error(),
            static_cast<uint32_t>(EINVAL));
}

TEST_F(VfioUserTest, SharesTheHbmButNotItsSize) {
  const ClientReply reply = client.ask(wire::kRegionInfo, wire::RegionInfo{32, 0, kBar4, 0, 0, 0});
  ASSERT_GE(reply.file, 0);
  void* memory = mmap(nullptr, kMebi, PROT_READ | PROT_WRITE, MAP_SHARED, reply.file, 16 * kMebi);
  ASSERT_NE(memory, MAP_FAILED);
  const uint32_t value = 0xFEEDF00D;
  std::memcpy(memory, &value, 4);
  EXPECT_EQ(client.get<uint32_t>(kBar4, 16 * kMebi), value);
  client.put<uint64_t>(kBar4, 16 * kMebi + 8, 0x1122334455667788);
  uint64_t seen;
  std::memcpy(&seen, static_cast<char*>(memory) + 8, 8);
  EXPECT_EQ(seen, 0x1122334455667788u);
  EXPECT_NE(ftruncate(reply.file, 4096), 0);
  munmap(memory, kMebi);
  close(reply.file);
}

TEST_F(VfioUserConfigurationTest, SaysFirstHowLongTheListOfMappablePagesIs) {
  const ClientReply first = client.ask(wire::kRegionInfo, wire::RegionInfo{32, 0, kBar0, 0, 0, 0});
  const auto shape = first.as<wire::RegionInfo>();
  EXPECT_EQ(first.file, -1);
  EXPECT_EQ(first.body.size(), 32u);
  EXPECT_EQ(shape.capabilities, 32u);
  EXPECT_EQ(shape.flags, 0xFu);
  EXPECT_EQ(shape.argsz, 32 + 16 + 34 * 16u);

  const ClientReply reply =
      client.ask(wire::kRegionInfo, wire::RegionInfo{shape.argsz, 0, kBar0, 0, 0, 0});
  ASSERT_EQ(reply.body.size(), shape.argsz);
  ASSERT_GE(reply.file, 0);
  wire::SparseMap sparse;
  std::memcpy(&sparse, reply.body.data() + 32, sizeof sparse);
  EXPECT_EQ(sparse.id, 1u);
  ASSERT_EQ(sparse.areas, 34u);
  wire::SparseArea area;
  std::memcpy(&area, reply.body.data() + 48, sizeof area);
  EXPECT_EQ(area.offset, NEURON_V2_UDMA(0) + 0x31000);
  EXPECT_EQ(area.size, 0xF000u);
  // What is written there is gone after a reset, as registers are.
  void* page = mmap(nullptr, area.size, PROT_READ | PROT_WRITE, MAP_SHARED, reply.file,
                    static_cast<off_t>(area.offset));
  ASSERT_NE(page, MAP_FAILED);
  std::memset(page, 0x5A, 4);
  EXPECT_EQ(client.ask_bytes(wire::kDeviceReset, {}).error(), 0u);
  uint32_t value;
  std::memcpy(&value, page, 4);
  EXPECT_EQ(value, 0u);
  munmap(page, area.size);
  close(reply.file);
}

TEST_F(VfioUserTest, ReadsItsIdentityAndRoutingId) {
  EXPECT_EQ(client.get<uint32_t>(wire::kConfigRegion, 0), 0x71641D0Fu);
  EXPECT_EQ(client.get<uint8_t>(wire::kConfigRegion, 8), 1u);
  EXPECT_EQ(client.reg(NEURON_V2_MISC_RAM + NEURON_FW_ROUTING_ID), 0u);
  ServedFunction third(ServedFunction::options(), 3);
  EXPECT_EQ(third.client->agree().error(), 0u);
  EXPECT_EQ(third.client->reg(NEURON_V2_MISC_RAM + NEURON_FW_ROUTING_ID), 4u);
}

TEST_F(VfioUserTest, CopiesFromGuestMemoryThroughHbmAndBack) {
  bring_up();
  for (size_t i = 0; i < 65536; i += 4) ram.set_word(kMebi + i, static_cast<uint32_t>(i * 7919));
  write_copy(ram, kM2s, kS2m, 0, kHost | kMebi, 0x1000000, 65536);
  write_copy(ram, kM2s, kS2m, 1, 0x1000000, kHost | 2 * kMebi, 65536);
  ram.set_word(0x30000, kMarker);
  write_copy(ram, kM2s, kS2m, 2, kHost | 0x30000, kHost | 0x30004, 4);
  ring(3);
  EXPECT_EQ(head(), 3u);
  EXPECT_EQ(std::memcmp(ram.at(kMebi), ram.at(2 * kMebi), 65536), 0);
  EXPECT_EQ(ram.word(0x30004), kMarker);
  EXPECT_EQ(client.get<uint32_t>(kBar4, 0x1000004), 4u * 7919);
}

TEST_F(VfioUserTest, CopiesAcrossTwoMapsThatAdjoinInTheGuestOnly) {
  ASSERT_EQ(client.map(0, kMebi, ram.file()).error(), 0u);
  ASSERT_EQ(client.map(kMebi, kMebi, ram.file(), 3 * kMebi).error(), 0u);
  client.enable();
  client.init_queue(kM2s, kS2m, 64);
  std::memset(ram.at(kMebi - 4096), 0x11, 4096);
  std::memset(ram.at(3 * kMebi), 0x22, 4096);
  write_copy(ram, kM2s, kS2m, 0, kHost | (kMebi - 4096), 0x1000000, 8192);
  ring(1);
  EXPECT_EQ(client.get<uint32_t>(kBar4, 0x1000FFC), 0x11111111u);
  EXPECT_EQ(client.get<uint32_t>(kBar4, 0x1001000), 0x22222222u);
}

TEST_F(VfioUserTest, AbortsACopyToMemoryThatCameWithoutAFile) {
  bring_up();
  ASSERT_EQ(client.map(uint64_t{3} << 30, kMebi, -1).error(), 0u);
  write_copy(ram, kM2s, kS2m, 0, kHost | kMebi, kHost | uint64_t{3} << 30, 4096);
  ring(1);
  EXPECT_EQ(head(), 0u);
  EXPECT_EQ(client.reg(NEURON_V2_UDMA(32) + NEURON_UDMA_STATE), uint32_t{NEURON_UDMA_STATE_ABORT});
}

TEST_F(VfioUserTest, MovesNothingUntilItIsBusMaster) {
  ASSERT_EQ(client.map(0, 4 * kMebi, ram.file()).error(), 0u);
  client.init_queue(kM2s, kS2m, 64);
  write_copy(ram, kM2s, kS2m, 0, kHost | kMebi, kHost | 2 * kMebi, 4096);
  ram.set_word(kMebi, 1);
  ring(1);
  EXPECT_EQ(ram.word(2 * kMebi), 0u);
}

TEST(VfioUserSession, HasTheDriversPatienceWithItsCopiesAndSaysWhatCameTooLate) {
  constexpr uint64_t kMs = 1'000'000;
  const auto patience = [](uint16_t device, uint8_t revision) {
    VfioUserOptions options = ServedFunction::options();
    options.pci_device = device;
    options.revision = revision;
    options.hbm_bytes_each = device == NEURON_PCI_DEVICE_TRN2 && revision == 255 ? 64 * kMebi : 0;
    std::string said;
    options.log = [&](const std::string& sentence) { said += sentence; };
    ServedFunction served(options, 3);
    served.function->host_writes().complain("too late");
    EXPECT_EQ(said, "nd3: too late");
    chip::DriverPatience found;
    served.function->with_chip([&](chip::Chip& chip) { found = chip.config().patience; });
    return found;
  };
  const chip::DriverPatience trn1 = patience(NEURON_PCI_DEVICE_TRN1, 1);
  EXPECT_EQ(trn1.limit_ns(1), 5040 * kMs) << "QEMU has given the function up after 5 s";
  EXPECT_EQ(trn1.limit_ns(2048), 81'920 * kMs) << "is answered before it is executed";
  EXPECT_EQ(patience(NEURON_PCI_DEVICE_TRN2, 1).descriptor_ns, 80 * kMs);
  EXPECT_EQ(patience(NEURON_PCI_DEVICE_TRN1, 240).descriptor_ns, 4'000'000 * kMs);
  EXPECT_EQ(patience(NEURON_PCI_DEVICE_TRN2, 255).descriptor_ns, 800'000 * kMs);
}

TEST_F(VfioUserTest, MovesNothingMoreAfterAnUnmap) {
  bring_up();
  write_copy(ram, kM2s, kS2m, 0, kHost | kMebi, kHost | 2 * kMebi, 4096);
  EXPECT_EQ(client.unmap(0, 4 * kMebi).as<wire::DmaUnmap>().size, 4 * kMebi);
  ram.set_word(kMebi, 1);
  ring(1);
  EXPECT_EQ(ram.word(2 * kMebi), 0u);
  // Mapped again, the queue goes on after the reset that drivers do.
  ASSERT_EQ(client.map(0, 4 * kMebi, ram.file()).error(), 0u);
  client.init_queue(kM2s, kS2m, 64);
  ring(1);
  EXPECT_EQ(ram.word(2 * kMebi), 1u);
}

TEST_F(VfioUserTest, UnmapsAllOnRequest) {
  bring_up();
  EXPECT_EQ(client.unmap(0, 0, wire::kUnmapAll).error(), 0u);
  EXPECT_EQ(served.function->memory().maps(), 0u);
  EXPECT_EQ(client.unmap(0, 4096, wire::kUnmapDirtyBitmap).error(), static_cast<uint32_t>(EINVAL));
}

TEST_F(VfioUserTest, PostsWritesThatWantNoReply) {
  bring_up();
  const uint64_t reg = NEURON_V2_MISC_RAM + 0x100;
  const uint32_t value = 0x600D;
  client.send(wire::kRegionWrite,
              client.write_body(kBar0, reg, std::as_bytes(std::span(&value, 1))), -1,
              wire::kNoReply);
  EXPECT_EQ(client.reg(reg), value);
}

TEST_F(VfioUserTest, ReadsAndWritesBytesOfAnSbufAndWordsOfRegisters) {
  const uint64_t sbuf = NEURON_V2_CORE_WINDOW(1) + 5 * NEURON_SBUF_PARTITION_STRIDE;
  client.put<uint64_t>(kBar0, sbuf + 16, 0x0807060504030201);
  client.put<uint8_t>(kBar0, sbuf + 18, 0xEE);
  client.put<uint16_t>(kBar0, sbuf + 21, 0xBBCC);
  EXPECT_EQ(client.get<uint64_t>(kBar0, sbuf + 16), 0x08BBCC0504EE0201u);
  EXPECT_EQ(client.get<uint8_t>(kBar0, sbuf + 18), 0xEEu);
  // Registers have no bytes: such a write changes nothing.
  client.set_reg(NEURON_V2_MISC_RAM + 0x100, 0x01020304);
  client.put<uint8_t>(kBar0, NEURON_V2_MISC_RAM + 0x100, 0xFF);
  EXPECT_EQ(client.reg(NEURON_V2_MISC_RAM + 0x100), 0x01020304u);
}

TEST_F(VfioUserTest, CountsSemaphoresThroughTheirAliases) {
  const uint64_t block = NEURON_V2_CORE_WINDOW(0) + NEURON_CORE_SEMAPHORES;
  client.set_reg(block + NEURON_SEM_BLOCK_SET + 4 * 9, 5);
  client.set_reg(block + NEURON_SEM_BLOCK_INC + 4 * 9, 3);
  client.set_reg(block + NEURON_SEM_BLOCK_DEC + 4 * 9, 1);
  EXPECT_EQ(client.reg(block + NEURON_SEM_BLOCK_READ + 4 * 9), 7u);
}

TEST_F(VfioUserTest, ForgetsRegistersAndRingsWithAResetButNotTheHbm) {
  bring_up();
  client.put<uint32_t>(kBar4, 0x2000000, 77);
  client.set_reg(NEURON_V2_UDMA(3) + 0x38000, 5);
  EXPECT_EQ(client.ask_bytes(wire::kDeviceReset, {}).error(), 0u);
  EXPECT_EQ(client.reg(NEURON_V2_UDMA(3) + 0x38000), 0u);
  EXPECT_EQ(client.reg(VfioUserClient::queue(false) + NEURON_UDMAQ_LENGTH), 0u);
  EXPECT_EQ(client.get<uint16_t>(wire::kConfigRegion, 4), 0u);
  EXPECT_EQ(client.get<uint32_t>(kBar4, 0x2000000), 77u);
}

TEST_F(VfioUserTest, ResetsWhenTheGuestWritesTheFunctionLevelResetBit) {
  client.set_reg(NEURON_V2_UDMA(3) + 0x38000, 5);
  client.put<uint16_t>(wire::kConfigRegion, 0x48, 0x8000);
  EXPECT_EQ(client.reg(NEURON_V2_UDMA(3) + 0x38000), 0u);
}

TEST_F(VfioUserTest, AnswersAllOnesAndMovesNothingWithoutPower) {
  bring_up();
  write_copy(ram, kM2s, kS2m, 0, kHost | kMebi, kHost | 2 * kMebi, 4096);
  ram.set_word(kMebi, 1);
  served.function->with_chip([](chip::Chip& chip) { chip.faults().set_off(true); });
  EXPECT_EQ(client.get<uint32_t>(wire::kConfigRegion, 0), 0xFFFFFFFFu);
  EXPECT_EQ(client.reg(NEURON_V2_MISC_RAM + NEURON_FW_ROUTING_ID), 0xFFFFFFFFu);
  ring(1);
  EXPECT_EQ(ram.word(2 * kMebi), 0u);
}

TEST_F(VfioUserTest, CountsWhatADriverDidBeforeItsFirstDoorbell) {
  bring_up();
  const auto& counts = served.function->statistics();
  const uint64_t set_up = counts.before_doorbell.load();
  EXPECT_EQ(set_up, 12u);
  (void)client.reg(NEURON_V2_MISC_RAM + NEURON_FW_API_VERSION);
  ring(0);
  (void)head();
  EXPECT_EQ(counts.before_doorbell.load(), set_up);
  EXPECT_EQ(counts.doorbells.load(), 2u);
  EXPECT_EQ(counts.register_reads.load(), 1u);
  EXPECT_EQ(counts.polls.load(), 1u);
  EXPECT_THAT(served.function->describe(), HasSubstr("12 register accesses before"));
}

TEST_F(VfioUserTest, RefusesAccessesOutsideARegionAndGoesOn) {
  const auto invalid = static_cast<uint32_t>(EINVAL);
  EXPECT_EQ(client.read(kBar0, uint64_t{1} << 30, 4).error(), invalid);
  EXPECT_EQ(client.read(kBar0, (uint64_t{1} << 30) - 2, 4).error(), invalid);
  EXPECT_EQ(client.read(kBar0, UINT64_MAX, 4).error(), invalid);
  EXPECT_EQ(client.read(kBar0, 0, 0).error(), invalid);
  EXPECT_EQ(client.read(kBar0, 0, wire::kMaxTransfer + 1).error(), invalid);
  EXPECT_EQ(client.read(kBar0, 0, UINT32_MAX).error(), invalid);
  EXPECT_EQ(client.read(1, 0, 4).error(), invalid);
  EXPECT_EQ(client.read(UINT32_MAX, 0, 4).error(), invalid);
  EXPECT_EQ(client.read(wire::kConfigRegion, 4093, 4).error(), invalid);
  // More or less payload than the access says.
  const std::byte bytes[8] = {};
  std::vector<std::byte> body = client.write_body(kBar4, 0, bytes);
  body.pop_back();
  EXPECT_EQ(client.ask_bytes(wire::kRegionWrite, body).error(), invalid);
  body.resize(body.size() + 5);
  EXPECT_EQ(client.ask_bytes(wire::kRegionWrite, body).error(), invalid);
  EXPECT_EQ(client.read(kBar4, 0, wire::kMaxTransfer).body.size(),
            sizeof(wire::RegionAccess) + wire::kMaxTransfer);
  served.finish();
  EXPECT_THAT(served.log, HasSubstr("reading 4 bytes at 1073741822 of region 0"));
}

TEST_F(VfioUserTest, RefusesBodiesThatAreTooShortAndCommandsThatItDoesNotKnow) {
  for (const uint16_t command : {wire::kDmaMap, wire::kDmaUnmap, wire::kRegionInfo, wire::kIrqInfo,
                                 wire::kSetIrqs, wire::kRegionRead, wire::kRegionWrite}) {
    EXPECT_EQ(client.ask_bytes(command, {}).error(), static_cast<uint32_t>(EINVAL)) << command;
    const std::byte one{};
    EXPECT_EQ(client.ask(command, one).error(), static_cast<uint32_t>(EINVAL)) << command;
  }
  for (const uint16_t command : {0, 6, 11, 12, 14, 15, 65535}) {
    EXPECT_EQ(client.ask_bytes(command, {}).error(), static_cast<uint32_t>(ENOTSUP)) << command;
  }
  EXPECT_EQ(client.ask(wire::kDeviceInfo, wire::DeviceInfo{}).error(), 0u);
}

TEST_F(VfioUserTest, RefusesMapsThatAreNoneAndGoesOn) {
  const auto invalid = static_cast<uint32_t>(EINVAL);
  EXPECT_EQ(client.map(0, 100, ram.file()).error(), invalid);
  EXPECT_EQ(client.map(0, uint64_t{1} << 50, ram.file()).error(), 0u);  // known, not reached
  EXPECT_EQ(client.map(uint64_t{1} << 55, 4096, ram.file(), 0, 0xFF).error(), invalid);
  EXPECT_EQ(client.unmap(0, 4096).error(), invalid);
  EXPECT_EQ(client.unmap(0, UINT64_MAX).error(), 0u);
  EXPECT_EQ(client.map(0, 4096, ram.file()).error(), 0u);
}

TEST_F(VfioUserTest, ReadsMessagesThatArriveByteByByte) {
  const wire::RegionAccess access{0, wire::kConfigRegion, 4};
  const std::vector<std::byte> bytes =
      client.message(wire::kRegionRead, std::as_bytes(std::span(&access, 1)));
  for (const std::byte& byte : bytes) client.send_raw({&byte, 1});
  EXPECT_TRUE(client.receive().arrived);
}

TEST_F(VfioUserTest, ServesMessagesThatArriveTogetherInTheirOrder) {
  const uint32_t value = 0x1234;
  std::vector<std::byte> both = client.message(
      wire::kRegionWrite,
      client.write_body(kBar0, NEURON_V2_MISC_RAM + 0x104, std::as_bytes(std::span(&value, 1))),
      wire::kNoReply);
  const wire::RegionAccess access{NEURON_V2_MISC_RAM + 0x104, kBar0, 4};
  const auto second = client.message(wire::kRegionRead, std::as_bytes(std::span(&access, 1)));
  both.insert(both.end(), second.begin(), second.end());
  client.send_raw(both);
  const ClientReply reply = client.receive();
  ASSERT_EQ(reply.body.size(), 20u);
  EXPECT_EQ(std::memcmp(reply.body.data() + 16, &value, 4), 0);
}

TEST_F(VfioUserTest, EndsWhenTheStreamIsOutOfStep) {
  const wire::Header header{1, wire::kRegionRead, 15, 0, 0};
  client.send_raw(std::as_bytes(std::span(&header, 1)));
  EXPECT_FALSE(client.receive().arrived);
  served.finish();
  EXPECT_THAT(served.session->ended(), HasSubstr("says that it has 15 bytes"));
}

TEST_F(VfioUserTest, EndsWhenAMessageIsLongerThanAnyCanBe) {
  const wire::Header header{1, wire::kRegionWrite, UINT32_MAX, 0, 0};
  client.send_raw(std::as_bytes(std::span(&header, 1)));
  EXPECT_FALSE(client.receive().arrived);
}

TEST_F(VfioUserTest, EndsWhenTheClientAnswersInsteadOfAsking) {
  client.send(wire::kRegionRead, {}, -1, wire::kReply);
  EXPECT_FALSE(client.receive().arrived);
}

TEST_F(VfioUserTest, EndsWhenTheClientGoesInTheMiddleOfAMessage) {
  const wire::Header header{1, wire::kRegionWrite, 1000, 0, 0};
  client.send_raw(std::as_bytes(std::span(&header, 1)));
  served.finish();
  EXPECT_THAT(served.session->ended(), HasSubstr("closed"));
}

// Records what has been done when each answer leaves.
class WatchingStream final : public VfioUserStream {
 public:
  WatchingStream(std::vector<std::vector<std::byte>> messages, GuestRam& ram)
      : messages_(std::move(messages)), ram_(ram) {}
  Received receive(VfioUserMessage& message, std::string&) override {
    if (next_ == messages_.size()) return Received::kClosed;
    const auto& bytes = messages_[next_++];
    std::memcpy(&message.header, bytes.data(), sizeof message.header);
    message.body.assign(bytes.begin() + sizeof message.header, bytes.end());
    return Received::kMessage;
  }
  bool send(const wire::Header&, std::span<const std::byte>, int) override {
    markers.push_back(ram_.word(0x30004));
    return true;
  }
  std::vector<uint32_t> markers;

 private:
  std::vector<std::vector<std::byte>> messages_;
  size_t next_ = 0;
  GuestRam& ram_;
};

class VfioUserAnswers : public VfioUserTest {
 protected:
  // The destination's word when the answers to a greeting, an S2M and an M2S doorbell leave.
  std::vector<uint32_t> markers_of(uint32_t descriptors) {
    bring_up();
    client.init_queue(kM2s, kS2m, 2048);
    settle();
    served.finish();
    ram.set_word(0x30000, kMarker);
    write_copy(ram, kM2s, kS2m, 0, kHost | 0x30000, kHost | 0x30004, 4);
    std::vector<std::vector<std::byte>> messages;
    const wire::Version version{0, 0};
    messages.push_back(client.message(wire::kVersion, std::as_bytes(std::span(&version, 1))));
    for (const bool s2m : {true, false}) {
      messages.push_back(client.message(
          wire::kRegionWrite,
          client.write_body(kBar0, VfioUserClient::queue(s2m) + NEURON_UDMAQ_TAIL_INC,
                            std::as_bytes(std::span(&descriptors, 1)))));
    }
    WatchingStream stream(std::move(messages), ram);
    VfioUserSession session(*served.function, stream, {});
    session.serve();
    EXPECT_EQ(ram.word(0x30004), kMarker);
    return stream.markers;
  }
};

TEST_F(VfioUserAnswers, ADoorbellWhenItsBytesHaveMoved) {
  EXPECT_EQ(markers_of(1), (std::vector<uint32_t>{0, 0, kMarker}));
}

TEST_F(VfioUserAnswers, ADoorbellOfVeryManyDescriptorsBeforeItMovesAByte) {
  EXPECT_EQ(markers_of(1025), (std::vector<uint32_t>{0, 0, 0}));
}

}  // namespace
}  // namespace neuron::transport
