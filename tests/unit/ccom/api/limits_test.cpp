// SPDX-License-Identifier: Apache-2.0
// Hosts that give too little: descriptors, locked memory, /dev/shm, /tmp, address space, sizes of
// files; and ranks that are stopped for a while. What does not work says so, on every rank; nothing
// hangs, and no signal ends a rank.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "driver/base/format.h"
#include "tests/support/child.h"
#include "tests/support/sanitized.h"
#include "tests/unit/ccom/api/job.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

using test::kSanitized;  // it reserves terabytes of address space

constexpr uint32_t kOverTcp = CCOM_FLAG_NO_SHARED_MEMORY;

void limit(int resource, rlim_t most) {
  const rlimit both{most, most};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0) _exit(9);
}

// One all-reduce, and what came of it.
void run_once(ccom_comm_t* comm, uint32_t rank, int report) {
  std::vector<float> values(100000, 1.0f);
  const ccom_collective_t call = all_reduce(values);
  Job::tell(report, rank, ccom_run(comm, &call));
  poll(nullptr, 0, 20000);  // who goes would be dead to the others
}

// What every rank of a job says.
std::vector<Report> reports_of(Job& job, uint32_t size) {
  std::vector<Report> reports(size);
  for (uint32_t i = 0; i < size; ++i) {
    Report said;
    EXPECT_TRUE(job.hear(said, milliseconds(20000))) << "a rank hangs, or was ended";
    reports[said.rank] = said;
  }
  return reports;
}

class Limits : public testing::TestWithParam<uint32_t> {
 protected:
  // Every rank has its result.
  static void expect_success(uint32_t size, const Job::Before& before) {
    Job job(size, 10000, run_once, GetParam(), before);
    for (const Report& said : reports_of(job, size)) {
      EXPECT_EQ(said.status, CCOM_SUCCESS) << "rank " << said.rank << ": " << said.sentence;
    }
  }
};

TEST_P(Limits, NoLockedMemoryIsNeeded) {
  expect_success(3, [](uint32_t) { limit(RLIMIT_MEMLOCK, 0); });
}

// A file system of one page in the place of `folder`, for this process alone, filled up.
bool fill(const char* folder) {
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", folder, "tmpfs", 0, "size=4k,nr_inodes=2") != 0) {
    return false;
  }
  const std::string path = std::string(folder) + "/full";
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  const std::string page(4096, 'x');
  const bool full = file >= 0 && write(file, page.data(), page.size()) == 4096 &&
                    write(file, page.data(), page.size()) < 0;
  if (file >= 0) close(file);
  return full;
}

// Whether this process may make file systems of its own.
bool may_mount() {
  return test::Child::forked([] { return fill("/dev/shm") ? 0 : 1; }).wait() == 0;
}

TEST_P(Limits, AFullDevShmIsNotMissed) {
  if (!may_mount()) GTEST_SKIP() << "this process may not mount";
  expect_success(3, [](uint32_t) {
    if (!fill("/dev/shm")) _exit(9);
  });
}

TEST(Limits, AFullTmpIsNamedByEveryRankOfTheHost) {
  if (!may_mount()) GTEST_SKIP() << "this process may not mount";
  Job job(3, 10000, run_once, 0, [](uint32_t) {
    if (!fill("/tmp")) _exit(9);
  });
  for (const Report& said : reports_of(job, 3)) {
    EXPECT_EQ(said.status, CCOM_SYSTEM) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "rank 0 (host "), nullptr) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "/tmp"), nullptr) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "No space left on device"), nullptr) << said.sentence;
  }
}

TEST(Limits, ASmallLimitOfFileSizesIsNamedAndKillsNobody) {
  Job job(3, 10000, run_once, 0, [](uint32_t rank) {
    if (rank == 1) limit(RLIMIT_FSIZE, 1 << 16);
  });
  for (const Report& said : reports_of(job, 3)) {
    EXPECT_EQ(said.status, CCOM_RESOURCE) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "ulimit -f"), nullptr) << said.sentence;
    if (said.rank != 1) {
      EXPECT_NE(strstr(said.sentence, "rank 1 (host "), nullptr) << said.sentence;
    }
  }
}

TEST(Limits, TooLittleAddressSpaceIsNamed) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer has all address space";
  Job job(3, 10000, run_once, 0, [](uint32_t rank) {
    // Room for the threads of the library, not for the memory of three ranks.
    rlimit most{};
    getrlimit(RLIMIT_AS, &most);
    most.rlim_cur = 200u << 20;
    if (rank == 1) setrlimit(RLIMIT_AS, &most);
  });
  for (const Report& said : reports_of(job, 3)) {
    EXPECT_TRUE(said.status == CCOM_RESOURCE || said.status == CCOM_SYSTEM) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "Cannot allocate memory"), nullptr) << said.sentence;
    if (said.rank != 1) {
      EXPECT_NE(strstr(said.sentence, "rank 1 (host "), nullptr) << said.sentence;
    }
  }
}

TEST_P(Limits, OfDescriptorsAreEitherEnoughOrNamed) {
  uint32_t refused = 0, done = 0;
  for (const uint32_t most : {30u, 76u, 84u, 100u}) {
    Job job(2, 15000, run_once, GetParam(), [most](uint32_t rank) {
      if (rank == 1) limit(RLIMIT_NOFILE, most);
    });
    Report said;
    do {
      ASSERT_TRUE(job.hear(said, milliseconds(20000))) << "a rank hangs, or was ended";
      if (said.rank == 0) {
        EXPECT_EQ(said.status, CCOM_SUCCESS) << said.sentence;
      }
    } while (said.rank == 0);
    if (said.status == CCOM_SUCCESS) {
      ++done;
      continue;
    }
    ++refused;  // and rank 0 waits for it
    EXPECT_EQ(said.status, CCOM_RESOURCE) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "file descriptors"), nullptr) << said.sentence;
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(done, 0u);
}

TEST_P(Limits, ARankThatIsStoppedForLessThanTheTimeLimitIsWaitedFor) {
  constexpr uint32_t kSize = 3;
  Job job(kSize, 15000, run_until_it_fails, GetParam());
  Report said;
  for (uint32_t i = 0; i < kSize; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    ASSERT_EQ(said.status, CCOM_SUCCESS) << said.sentence;
  }
  // Longer than a silent neighbour on another host may be (900 ms).
  for (const int time_ms : {5, 1200}) {
    kill(job.child(1), SIGSTOP);
    EXPECT_FALSE(job.hear(said, milliseconds(time_ms))) << "rank " << said.rank << said.sentence;
    kill(job.child(1), SIGCONT);
  }
  EXPECT_FALSE(job.hear(said, milliseconds(100))) << "rank " << said.rank << said.sentence;
  // They go on, so that who dies then is the one to blame.
  kill(job.child(2), SIGKILL);
  for (uint32_t i = 0; i + 1 < kSize; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    EXPECT_EQ(said.status, CCOM_RANK_DEAD) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "rank 2 (host "), nullptr) << said.sentence;
  }
}

TEST_P(Limits, ARankThatIsStoppedForLongerIsNamedWithOperationAndLink) {
  constexpr uint32_t kSize = 3;
  Job job(
      kSize, 15000,
      [](ccom_comm_t* comm, uint32_t rank, int report) {
        run_with_limit(comm, rank, report, 1000);
      },
      GetParam());
  Report said;
  for (uint32_t i = 0; i < kSize; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    ASSERT_EQ(said.status, CCOM_SUCCESS) << said.sentence;
  }
  kill(job.child(1), SIGSTOP);
  for (uint32_t i = 0; i + 1 < kSize; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(10000)));
    EXPECT_EQ(said.status, CCOM_TIMEOUT) << said.sentence;
    const char* link = GetParam() == kOverTcp ? "tcp" : "shared memory";
    EXPECT_NE(strstr(said.sentence, "rank 1 (host "), nullptr) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "all_reduce"), nullptr) << said.sentence;
    EXPECT_NE(strstr(said.sentence, link), nullptr) << said.sentence;
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Limits, testing::Values(0u, kOverTcp), [](const auto& info) {
  return std::string(info.param == kOverTcp ? "Tcp" : "SharedMemory");
});

}  // namespace
}  // namespace neuron::ccom
