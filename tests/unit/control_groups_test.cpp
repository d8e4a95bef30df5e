#include "core/control_groups.hpp"

#include "tests/support/files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

namespace shardsolve::core {
namespace {

using testing::TemporaryDirectory;
using testing::write_file;

/// A tree of control groups with one file in it.
void put(const TemporaryDirectory& tree, const std::string& file, const std::string& text) {
  const std::filesystem::path path = tree / file;
  std::filesystem::create_directories(path.parent_path());
  write_file(path.string(), text);
}

ControlGroups in(const TemporaryDirectory& tree) { return {tree / "own", tree.path()}; }

TEST(CpuQuota, Version2_TheLeastOfAllGroupsAround) {
  const TemporaryDirectory tree;
  put(tree, "own", "0::/jobs/17\n");
  put(tree, "jobs/17/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(in(tree)), 4.0);
  put(tree, "jobs/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(in(tree)), 1.5);
}

TEST(CpuQuota, PathOfTheHost_TheRootIsTheContainers) {
  const TemporaryDirectory tree;
  put(tree, "own", "0::/../../docker/9a\n");
  put(tree, "cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_quota(in(tree)), 0.5);
}

TEST(CpuQuota, Version1_IsFoundByItsController) {
  const TemporaryDirectory tree;
  put(tree, "own", "5:cpuset:/a\n4:cpu,cpuacct:/b\n0::/\n");
  put(tree, "cpu/b/cpu.cfs_quota_us", "300000\n");
  put(tree, "cpu/b/cpu.cfs_period_us", "100000\n");
  put(tree, "cpu/a/cpu.cfs_quota_us", "100000\n");
  put(tree, "cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(in(tree)), 3.0);
}

TEST(CpuQuota, NoLimit_IsNone) {
  const TemporaryDirectory tree;
  EXPECT_EQ(cpu_quota(in(tree)), std::nullopt);
  put(tree, "own", "4:cpu:/\n0::/\n");
  put(tree, "cpu.max", "max 100000\n");
  put(tree, "cpu/cpu.cfs_quota_us", "-1\n");
  put(tree, "cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(in(tree)), std::nullopt);
}

TEST(ThreadsLeft, ControlGroups_TheLeastThatIsLeft) {
  const TemporaryDirectory tree;
  EXPECT_EQ(threads_left(in(tree)), std::nullopt);
  put(tree, "own", "0::/jobs/17\n");
  put(tree, "jobs/17/pids.max", "max\n");
  EXPECT_EQ(threads_left(in(tree)), std::nullopt);
  put(tree, "jobs/pids.max", "100\n");
  put(tree, "jobs/pids.current", "70\n");
  EXPECT_EQ(threads_left(in(tree)), 30);
  put(tree, "own", "7:pids:/b\n0::/\n");  // version 1
  put(tree, "pids/b/pids.max", "12\n");
  put(tree, "pids/b/pids.current", "20\n");
  EXPECT_EQ(threads_left(in(tree)), 0);
}

TEST(MemoryLeft, Version2_TheLeastOfAllGroupsAround) {
  const TemporaryDirectory tree;
  EXPECT_EQ(memory_left(in(tree)), std::nullopt);
  put(tree, "own", "0::/slurm/job_7/step_0\n");
  put(tree, "slurm/job_7/step_0/memory.max", "max\n");
  put(tree, "slurm/job_7/step_0/memory.current", "600\n");
  EXPECT_EQ(memory_left(in(tree)), std::nullopt);
  put(tree, "slurm/job_7/memory.max", "1000\n");
  put(tree, "slurm/job_7/memory.current", "700\n");
  EXPECT_EQ(memory_left(in(tree)), 300);
  put(tree, "memory.max", "5000\n");
  put(tree, "memory.current", "4900\n");
  EXPECT_EQ(memory_left(in(tree)), 100);
  put(tree, "memory.current", "5001\n");
  EXPECT_EQ(memory_left(in(tree)), 0);
}

TEST(MemoryLeft, FilesThatTheSystemKeeps_DoNotCount) {
  const TemporaryDirectory tree;
  put(tree, "own", "0::/a\n");
  put(tree, "a/memory.max", "1000\n");
  put(tree, "a/memory.current", "1000\n");
  put(tree, "a/memory.stat", "anon 300\nfile 700\nshmem 50\ninactive_file 400\nactive_file 250\n");
  EXPECT_EQ(memory_left(in(tree)), 650);
}

TEST(MemoryLeft, Version1_IsFoundByItsController) {
  const TemporaryDirectory tree;
  put(tree, "own", "5:cpuset:/b\n4:memory:/a\n0::/\n");
  put(tree, "memory/a/memory.limit_in_bytes", "1000\n");
  put(tree, "memory/a/memory.usage_in_bytes", "900\n");
  put(tree, "memory/a/memory.stat",
      "inactive_file 7\ntotal_inactive_file 40\ntotal_active_file 20\n");
  put(tree, "memory/b/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(memory_left(in(tree)), 160);
  put(tree, "memory/a/memory.limit_in_bytes", "9223372036854771712\n");  // none
  put(tree, "memory/a/memory.usage_in_bytes", "50\n");                   // read before its files
  EXPECT_EQ(memory_left(in(tree)), 9223372036854771712);
}

}  // namespace
}  // namespace shardsolve::core
