// SPDX-License-Identifier: Apache-2.0
// Clients that do not keep to the protocol: they lose their connection, and nobody else notices.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>

#include "driver/ndl/error.h"
#include "driver/ndl/port.h"
#include "driver/ndl/port_backends.h"
#include "driver/wire/wire.h"
#include "hw/address_map.h"
#include "hw/control.h"
#include "tests/multi/device_client.h"
#include "tests/multi/observer.h"
#include "tests/multi/raw_client.h"
#include "tests/support/sanitized.h"
#include "tools/compiler/assembler/assembler.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::multi {
namespace {

using test::Child;
using test::Clock;
using test::Daemon;
using test::Folder;
using test::Worker;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_alive(const Daemon& daemon) {
  Raw other(daemon);
  EXPECT_EQ(other.greet(), 0) << other.behind << daemon.log();
}

TEST(HostileClient, LosesItsConnectionForAPacketThatIsNoMessage) {
  const Folder folder;
  const Daemon daemon(folder);
  Raw first(daemon), second(daemon), third(daemon), fourth(daemon);
  wire::Header answer;
  ASSERT_TRUE(first.send(uint64_t{0x4141414141414141}));
  EXPECT_EQ(first.receive(answer), 0);
  // A call before the greeting, a second greeting.
  ASSERT_TRUE(second.send(wire::message<wire::MapRequest>(wire::Kind::kMap, 1)));
  EXPECT_EQ(second.receive(answer), 0);
  ASSERT_EQ(third.greet(), 0);
  ASSERT_TRUE(third.send(wire::message<wire::Hello>(wire::Kind::kHello, 1)));
  EXPECT_EQ(third.receive(answer), 0);
  ASSERT_EQ(fourth.greet(), 0);
  std::array<char, wire::kMaxMessage + 1> large = {};
  ASSERT_TRUE(fourth.send(large));
  EXPECT_EQ(fourth.receive(answer), 0);
  EXPECT_THAT(daemon.log(), HasSubstr("its connection is closed"));
  expect_alive(daemon);
}

TEST(HostileClient, OfAnotherReleaseAgreesOnWhatBothHaveOrIsToldWhyNot) {
  const Folder folder;
  const Daemon daemon(folder);
  Raw newer(daemon), older(daemon), foreign(daemon);
  EXPECT_EQ(newer.greet(1, 900, ~uint64_t{0}), 0);
  EXPECT_EQ(newer.welcome.version, wire::kNewestVersion);
  EXPECT_EQ(newer.welcome.features, wire::kFeatures);
  EXPECT_EQ(older.greet(1, 1, 0), 0);
  EXPECT_EQ(older.welcome.features, 0u);
  EXPECT_FALSE(older.files[0]);
  EXPECT_EQ(foreign.greet(7, 9), -EPROTO);
  EXPECT_THAT(foreign.behind, HasSubstr("the client speaks versions 7 to 9"));
}

TEST(HostileClient, CannotTakeMemoryAwayOrConfuseTheDaemonThroughIt) {
  const Folder folder;
  const Daemon daemon(folder);
  Raw raw(daemon);
  ASSERT_EQ(raw.greet(), 0);
  EXPECT_NE(::ftruncate(raw.files[0].get(), 0), 0);
  EXPECT_EQ(errno, EPERM);
  void* page =
      ::mmap(nullptr, wire::kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, raw.files[0].get(), 0);
  ASSERT_NE(page, MAP_FAILED);
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    for (size_t word = 0; word < wire::kRingBytes / 4; ++word) {
      static_cast<volatile uint32_t*>(page)[word] = static_cast<uint32_t>(random());
    }
    const uint64_t one = 1;
    ASSERT_EQ(::write(raw.files[1].get(), &one, sizeof(one)), 8);
  }
  ::munmap(page, wire::kRingBytes);
  expect_alive(daemon);
}

TEST(HostileClient, PassesOnlyFilesWhoseReadsNeverWait) {
  const Folder folder;
  const Daemon daemon(folder);
  Raw raw(daemon);
  ASSERT_EQ(raw.greet(), 0);
  struct {
    wire::IoctlRequest request;
    neuron_ioctl_mem_buf_copy64 argument;
  } call = {};
  call.request = wire::message<wire::IoctlRequest>(wire::Kind::kIoctl, 3, wire::kFlagDataInFile,
                                                   sizeof(call) - sizeof(wire::IoctlRequest));
  call.request.request = NEURON_IOCTL_MEM_BUF_COPY64;
  call.request.argument_bytes = sizeof(call.argument);
  call.request.pointers = 1;
  call.request.data_bytes = 100'000;
  call.argument.size = 100'000;
  call.argument.copy_to_mem_handle = 1;
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  wire::Reply reply;
  ASSERT_TRUE(raw.send(call, {pipe, 1}));
  ASSERT_GT(raw.receive(reply), 0);
  EXPECT_EQ(reply.result, -EINVAL);
  EXPECT_THAT(raw.behind, HasSubstr("not in memory"));
  // Without a file, and with one that is too short.
  ASSERT_TRUE(raw.send(call));
  ASSERT_GT(raw.receive(reply), 0);
  EXPECT_EQ(reply.result, -EINVAL);
  const int file = ::memfd_create("short", MFD_CLOEXEC);
  ASSERT_TRUE(raw.send(call, {&file, 1}));
  ASSERT_GT(raw.receive(reply), 0);
  EXPECT_EQ(reply.result, -EINVAL);
  for (const int fd : {pipe[0], pipe[1], file}) ::close(fd);
  expect_alive(daemon);
}

unsigned descriptors_of(pid_t pid) {
  const std::filesystem::directory_iterator files("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<unsigned>(std::distance(begin(files), end(files)));
}

// A call that blocks for 5 s while another client initialises the core.
struct __attribute__((packed)) InitialiseCall {
  wire::IoctlRequest request =
      wire::message<wire::IoctlRequest>(wire::Kind::kIoctl, 5, 0, sizeof(neuron_ioctl_cinit_set));
  neuron_ioctl_cinit_set argument = {0, NEURON_CINIT_STATE_STARTED, 0};
  InitialiseCall() {
    request.request = NEURON_IOCTL_CINIT_SET_STATE;
    request.argument_bytes = sizeof(argument);
  }
};

TEST(HostileClient, ThatSaysGoodbyeInTheMiddleOfACallAndDiesIsFreeOfBothAtOnce) {
  const Folder folder;
  Daemon daemon(folder);
  Raw first(daemon);
  ASSERT_EQ(first.greet(), 0);
  wire::Reply reply;
  ASSERT_TRUE(first.send(InitialiseCall()));
  ASSERT_GT(first.receive(reply), 0);
  ASSERT_EQ(reply.result, 0) << first.behind;
  const unsigned before = descriptors_of(daemon.process().pid());
  const auto start = Clock::now();
  {
    Raw second(daemon);
    ASSERT_EQ(second.greet(), 0);
    ASSERT_TRUE(second.send(InitialiseCall()));
    ASSERT_TRUE(second.send(wire::message<wire::Header>(wire::Kind::kGoodbye, 6)));
  }
  while (descriptors_of(daemon.process().pid()) > before &&
         Clock::now() - start < std::chrono::seconds(4)) {
    ::usleep(1000);
  }
  EXPECT_EQ(descriptors_of(daemon.process().pid()), before);
  expect_alive(daemon);
}

// More calls than the daemon has threads, each of which blocks for 5 s.
TEST(HostileClient, ThatBlocksAsManyCallsAsItCanLeavesThreadsForOthers) {
  constexpr int kConnections = 20, kCalls = 60;
  static_assert(kCalls < wire::kMaxCalls && kConnections * kCalls > 1024);
  const Folder folder;
  const Daemon daemon(folder);
  Raw first(daemon);
  ASSERT_EQ(first.greet(), 0);
  wire::Reply reply;
  ASSERT_TRUE(first.send(InitialiseCall()));
  ASSERT_GT(first.receive(reply), 0);
  ASSERT_EQ(reply.result, 0) << first.behind;
  std::vector<std::unique_ptr<Raw>> hostile;
  for (int i = 0; i < kConnections; ++i) {
    hostile.push_back(std::make_unique<Raw>(daemon));
    ASSERT_EQ(hostile.back()->greet(), 0) << hostile.back()->behind;
  }
  for (int call = 0; call < kCalls; ++call) {
    for (const auto& raw : hostile) ASSERT_TRUE(raw->send(InitialiseCall()));
  }
  // Each of three others is served; in a busy host at least one of them before a call has ended.
  auto fastest = Clock::duration::max();
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    Child other = Child::forked([&] { return Raw(daemon).greet() == 0 ? 0 : 1; });
    EXPECT_EQ(other.wait(), 0);
    fastest = std::min(fastest, Clock::now() - start);
  }
  EXPECT_LT(fastest, std::chrono::seconds(4));
}

// Connections that say nothing, until no more are taken.
TEST(HostileClient, ThatConnectsAsOftenAsItCanLeavesConnectionsForOthers) {
  const Folder folder;
  // The daemon may open 512 descriptors.
  const Daemon daemon(folder, "trn1.2xlarge", {.before = {"prlimit", "--nofile=512:512"}});
  std::vector<base::FileDescriptor> silent;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  daemon.socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
  for (int i = 0; i < 200; ++i) {
    silent.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(silent.back());
    ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address),
                        sizeof(address)),
              0)
        << i;
  }
  Child other = Child::forked([&] { return Raw(daemon).greet() == 0 ? 0 : 1; });
  EXPECT_EQ(other.wait(), 0) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("its next ones are closed"));
  // What is closed makes room again.
  silent.clear();
  EXPECT_TRUE(test::eventually([&] { return Raw(daemon).greet() == 0; }));
}

// One instruction that computes for seconds: Pool sorts 128 rows of 2^20 elements.
std::string long_instruction(const Folder& folder) {
  const assembler::Assembled assembled = assembler::assemble(R"(
.neff name=long, build="test"
.target inf2
.var x : f32 [128, 4] input, format=NC
.var y : f32 [128, 4] output, format=NC
.engine Pool
main:
        memset sbuf[0:128, 0x0] f32 [16384], value=0x3f800000
        custom sbuf[0:128, 0x10000] f32 [1024:1, 1024:0] = sbuf[0:128, 0x0] f32 [1024:1, 1024:1], operator=2
        ret
)",
                                                             {});
  for (const auto& error : assembled.errors) {
    ADD_FAILURE() << error.line << ": " << error.message;
  }
  const auto neff = assembler::write(assembled.assembly);
  if (!neff) ADD_FAILURE() << neff.error().sentence;
  return neff ? folder.write("long.neff", *neff) : "";
}

double seconds_of(const std::function<void()>& what) {
  const auto start = Clock::now();
  what();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(HostileClient, WhoseInstructionsTakeManySecondsKeepsNobodyWaiting) {
  // Much less than the instruction takes on a host of any speed or load.
  constexpr double kSoon = 2;
  constexpr uint64_t kRegister =
      NEURON_V2_CORE_WINDOW(0) + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_READ;
  const Folder folder;
  const Daemon daemon(folder, "inf2.24xlarge");
  const std::string program = long_instruction(folder);
  const auto neighbour = DeviceClient::open(daemon.socket());
  ASSERT_NE(neighbour, nullptr) << daemon.log();
  std::vector<std::unique_ptr<Worker>> hostile;
  // Each executes the program once before it says anything.
  for (int core = 0; core < 5; ++core) {
    hostile.push_back(std::make_unique<Worker>(folder, daemon.emulator(), core, program));
  }
  ::usleep(500'000);
  EXPECT_LT(seconds_of([&] {
              uint32_t value = 0;
              for (int i = 0; i < 5; ++i) {
                EXPECT_EQ(neighbour->port().read_register(kRegister, &value), 0);
              }
            }),
            kSoon)
      << "a register is read";
  std::unique_ptr<DeviceClient> newcomer;
  EXPECT_LT(seconds_of([&] { newcomer = DeviceClient::open(daemon.socket()); }), kSoon)
      << "a client comes";
  EXPECT_NE(newcomer, nullptr) << daemon.log();
  EXPECT_LT(seconds_of([&] { newcomer.reset(); }), kSoon) << "a client goes";
  for (const auto& worker : hostile) {
    EXPECT_FALSE(worker->process().until('\n', base::Deadline::after(std::chrono::seconds(0))))
        << "the instruction ended too early for this test: " << worker->log();
    EXPECT_FALSE(worker->process().at_end()) << worker->log();
  }
  // Their deaths stop the instructions.
  for (const auto& worker : hostile) worker->process().kill();
  Observer observer(daemon);
  ASSERT_TRUE(observer.valid()) << daemon.log();
  EXPECT_LT(seconds_of([&] {
              test::eventually([&] { return observer.others() == 0 && observer.cores_free(); });
            }),
            kSoon)
      << "cores of the dead are free";
}

// That have ever been resident.
uint64_t most_bytes_of(pid_t pid) {
  const std::string status = test::read_file("/proc/" + std::to_string(pid) + "/status");
  const size_t at = status.find("VmHWM:");
  if (at == std::string::npos) ADD_FAILURE() << status;
  return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + 6, nullptr, 10) << 10;
}

// A call that copies 64 MiB into 1 MiB of device memory, piece by piece, with its data in a file.
struct __attribute__((packed)) LargeCall {
  static constexpr uint32_t kPieces = 63;
  static constexpr uint64_t kPieceBytes = 1 << 20;
  wire::IoctlRequest request = wire::message<wire::IoctlRequest>(
      wire::Kind::kIoctl, 7, wire::kFlagDataInFile, sizeof(neuron_ioctl_mem_buf_copy64zc_batches));
  neuron_ioctl_mem_buf_copy64zc_batches argument = {};
  LargeCall() {
    request.request = NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES;
    request.argument_bytes = sizeof(argument);
    request.pointers = 1;
    request.data_bytes =
        sizeof(neuron_memcpy_batch_t) + kPieces * (sizeof(nrt_tensor_batch_op_t) + kPieceBytes);
    argument.num_batches = 1;
    argument.is_copy_to_device = 1;
    argument.h2t_qid = NEURON_DMA_H2T_DEFAULT_QID;
  }
  // Pointers that lead to what follows are ones.
  base::FileDescriptor file(uint64_t handle) const {
    base::FileDescriptor made(::memfd_create("call", MFD_CLOEXEC));
    neuron_memcpy_batch_t batch = {};
    batch.mem_handle = handle;
    batch.num_ops = kPieces;
    batch.ops_ptr = reinterpret_cast<nrt_tensor_batch_op_t*>(1);
    std::vector<nrt_tensor_batch_op_t> pieces(kPieces,
                                              {0, kPieceBytes, reinterpret_cast<void*>(1)});
    const size_t bytes = pieces.size() * sizeof(pieces[0]);
    // Each piece stands behind its list, and reads as zeros.
    if (::ftruncate(made.get(), static_cast<off_t>(request.data_bytes)) != 0 ||
        ::pwrite(made.get(), &batch, sizeof(batch), 0) != sizeof(batch) ||
        ::pwrite(made.get(), pieces.data(), bytes, sizeof(batch)) != static_cast<ssize_t>(bytes)) {
      made.reset();
    }
    return made;
  }
};

TEST(HostileClient, ThatMakesLargeCallsInManyProcessesKeepsTheDaemonSmall) {
  // A sanitizer looks at each of the 64 MiB of a call, and its memory is not measured below.
  constexpr int kProcesses = 12, kCalls = test::kSanitized ? 1 : 3;
  // 256 MiB of buffers, and what the daemon has besides.
  constexpr uint64_t kMost = 512 << 20;
  static_assert(test::kSanitized ||
                kProcesses * kCalls * LargeCall::kPieces * LargeCall::kPieceBytes > 4 * kMost);
  const Folder folder;
  Daemon daemon(folder);
  int ready[2], begin[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(begin), 0);
  std::vector<Child> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(Child::forked([&] {
      const auto client = DeviceClient::open(daemon.socket());
      const uint64_t handle = client ? client->allocate(LargeCall::kPieceBytes, false) : 0;
      const LargeCall call;
      const base::FileDescriptor file = call.file(handle);
      const int fd = file.get();
      Raw raw(daemon);
      if (handle == 0 || fd < 0 || raw.greet() != 0) return 1;
      char byte = 0;
      ::close(begin[1]);
      if (::write(ready[1], &byte, 1) != 1 || ::read(begin[0], &byte, 1) != 0) return 2;
      for (int k = 0; k < kCalls; ++k) {
        if (!raw.send(call, {&fd, 1})) return 3;
      }
      for (int k = 0; k < kCalls; ++k) {
        wire::Reply reply;
        // The patience of a Raw is for one call.
        ssize_t length = -1;
        test::eventually([&] { return (length = raw.receive(reply)) != -1; });
        if (length <= 0 || reply.result != 0) return 4;
      }
      return 0;
    }));
  }
  for (int i = 0; i < kProcesses; ++i) {
    char byte;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  }
  for (const int fd : {ready[0], ready[1], begin[0], begin[1]}) ::close(fd);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0) << daemon.log();
  expect_alive(daemon);
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  EXPECT_LT(most_bytes_of(daemon.process().pid()), kMost);
}

// Calls that block hold all threads that the client may have; behind them come the largest messages
// that there are, which nobody carries out.
TEST(HostileClient, WhoseMessagesWaitForThreadsKeepsTheDaemonSmall) {
  constexpr int kConnections = 160, kBlocked = 3, kLarge = 58;
  struct __attribute__((packed)) {
    InitialiseCall call;
    std::byte data[30'000] = {};
  } large;
  large.call.request.header.size = sizeof(large);
  large.call.request.data_bytes = sizeof(large.data);
  constexpr uint64_t kMost = 128 << 20;
  static_assert(kConnections * kLarge * sizeof(large) > 2 * kMost);
  const Folder folder;
  Daemon daemon(folder);
  std::vector<std::unique_ptr<Raw>> hostile;
  for (int i = 0; i < kConnections; ++i) {
    hostile.push_back(std::make_unique<Raw>(daemon));
    ASSERT_EQ(hostile.back()->greet(), 0) << hostile.back()->behind;
  }
  const uint64_t before = most_bytes_of(daemon.process().pid());
  wire::Reply reply;
  ASSERT_TRUE(hostile[0]->send(InitialiseCall()));
  ASSERT_GT(hostile[0]->receive(reply), 0);
  for (int k = 0; k < kBlocked; ++k) {
    for (const auto& raw : hostile) ASSERT_TRUE(raw->send(InitialiseCall()));
  }
  // What does not fit the sockets is not sent.
  for (int k = 0; k < kLarge; ++k) {
    for (const auto& raw : hostile) (void)raw->send(large, {}, 1);
  }
  EXPECT_THAT(daemon.log(), Not(HasSubstr("its connection is closed")));
  Child other = Child::forked([&] { return Raw(daemon).greet() == 0 ? 0 : 1; });
  EXPECT_EQ(other.wait(), 0) << daemon.log();
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  EXPECT_LT(most_bytes_of(daemon.process().pid()), before + kMost);
}

TEST(SharedDescriptors, ThatAClientMayNotOpenAreNamedAsWhatTheyAre) {
  const Folder folder;
  const Daemon daemon(folder);
  // Once without the limit: a sanitizer needs a descriptor when it meets a type for the first time.
  const auto port = ndl::shared_port(daemon.socket(), "");
  ASSERT_NE(port, nullptr);
  std::unique_ptr<ndl::DevicePort> device;
  ASSERT_EQ(port->open(0, O_RDWR, device), 0) << ndl::last_error();
  device.reset();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  // Room for the socket and for one of the two files that come with the welcome.
  const rlimit tight{static_cast<rlim_t>(next) + 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  const int result = port->open(0, O_RDWR, device);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(result, -EMFILE);
  EXPECT_THAT(ndl::last_error(), HasSubstr("raise its limit of open files"));
}

TEST(SharedDescriptors, ThatTheDaemonMayNotOpenCostTheCallAndNotTheConnection) {
  const Folder folder;
  Daemon daemon(folder);
  Raw raw(daemon);
  ASSERT_EQ(raw.greet(), 0);
  // Once without the limit, for the same reason as above.
  const int file = ::memfd_create("data", MFD_CLOEXEC);
  wire::Reply reply;
  InitialiseCall call;
  ASSERT_TRUE(raw.send(call, {&file, 1}));
  ASSERT_GT(raw.receive(reply), 0);
  EXPECT_EQ(reply.result, 0) << raw.behind;
  const pid_t pid = daemon.process().pid();
  rlimit before{};
  // What it has open now, and nothing more.
  ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit tight{1, before.rlim_max};
  ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, &tight, nullptr), 0);
  ASSERT_TRUE(raw.send(call, {&file, 1}));
  ASSERT_GT(raw.receive(reply), 0);
  EXPECT_EQ(reply.result, -EMFILE);
  EXPECT_THAT(raw.behind, HasSubstr("raise the daemon's limit of open files"));
  ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, &before, nullptr), 0);
  ASSERT_TRUE(raw.send(call, {&file, 1}));
  ASSERT_GT(raw.receive(reply), 0);
  EXPECT_EQ(reply.result, 0) << raw.behind;
  ::close(file);
  expect_alive(daemon);
}

TEST(SharedDescriptors, OfAProcessThatHasEndedAreFreeAlthoughAChildOfItHasTheSocket) {
  const Folder folder;
  Daemon daemon(folder);
  expect_alive(daemon);
  const auto open = [&] { return descriptors_of(daemon.process().pid()); };
  // What the connection above has left closes a moment later.
  unsigned before = open();
  for (int i = 0; i < 100; ++i, ::usleep(1000)) before = std::min(before, open());
  int ready[2], end[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(end), 0);
  Child parent = Child::forked([&] {
    Raw raw(daemon);
    const char result = raw.greet() == 0 ? 1 : 0;
    ::close(end[1]);
    char byte = 0;
    const bool child = ::fork() == 0;
    if (!child) (void)!::write(ready[1], &result, 1);
    (void)!::read(end[0], &byte, 1);
    return 0;
  });
  ::close(end[0]);
  char greeted = 0;
  ASSERT_EQ(::read(ready[0], &greeted, 1), 1);
  EXPECT_EQ(greeted, 1);
  EXPECT_GT(open(), before);
  EXPECT_EQ(parent.kill(), test::ended_by(SIGKILL));
  test::eventually([&] { return open() == before; }, std::chrono::seconds(5));
  EXPECT_EQ(open(), before) << "while the child lives";
  for (const int fd : {ready[0], ready[1], end[1]}) ::close(fd);
  expect_alive(daemon);
}

TEST(HostileClient, MaySayNothingMoreAfterItsGoodbye) {
  const Folder folder;
  const Daemon daemon(folder);
  Raw raw(daemon);
  ASSERT_EQ(raw.greet(), 0);
  ASSERT_TRUE(raw.send(wire::message<wire::Header>(wire::Kind::kGoodbye, 6)));
  wire::Reply reply;
  ASSERT_GT(raw.receive(reply), 0);
  EXPECT_EQ(reply.result, 0);
  ASSERT_TRUE(raw.send(wire::message<wire::Header>(wire::Kind::kGoodbye, 7)));
  EXPECT_EQ(raw.receive(reply), 0);
  EXPECT_THAT(daemon.log(), HasSubstr("a message after its goodbye"));
}

}  // namespace
}  // namespace neuron::multi
