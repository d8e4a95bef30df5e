// Looking around: files of the system and other programs.

#include "cli/doctor/collect.hpp"
#include "cli/doctor/program.hpp"
#include "tests/support/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

namespace shardsolve::cli::doctor {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;
using testing::write_file;

/// A tree of control groups with one file in it.
void put(const TemporaryDirectory& tree, const std::string& file, const std::string& text) {
  const std::filesystem::path path = tree / file;
  std::filesystem::create_directories(path.parent_path());
  write_file(path.string(), text);
}

TEST(DoctorQuota, Version2_TheLeastOfAllGroupsAround) {
  const TemporaryDirectory tree;
  put(tree, "own", "0::/jobs/17\n");
  put(tree, "jobs/17/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(tree / "own", tree.path()), 4.0);
  put(tree, "jobs/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(tree / "own", tree.path()), 1.5);
}

TEST(DoctorQuota, PathOfTheHost_TheRootIsTheContainers) {
  const TemporaryDirectory tree;
  put(tree, "own", "0::/../../docker/9a\n");
  put(tree, "cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_quota(tree / "own", tree.path()), 0.5);
}

TEST(DoctorQuota, Version1_IsFoundByItsController) {
  const TemporaryDirectory tree;
  put(tree, "own", "5:cpuset:/a\n4:cpu,cpuacct:/b\n0::/\n");
  put(tree, "cpu/b/cpu.cfs_quota_us", "300000\n");
  put(tree, "cpu/b/cpu.cfs_period_us", "100000\n");
  put(tree, "cpu/a/cpu.cfs_quota_us", "100000\n");
  put(tree, "cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(tree / "own", tree.path()), 3.0);
}

TEST(DoctorQuota, NoLimit_IsNone) {
  const TemporaryDirectory tree;
  EXPECT_EQ(cpu_quota(tree / "own", tree.path()), std::nullopt);
  put(tree, "own", "4:cpu:/\n0::/\n");
  put(tree, "cpu.max", "max 100000\n");
  put(tree, "cpu/cpu.cfs_quota_us", "-1\n");
  put(tree, "cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(tree / "own", tree.path()), std::nullopt);
}

TEST(DoctorThreads, ControlGroups_TheLeastThatIsLeft) {
  const TemporaryDirectory tree;
  EXPECT_EQ(threads_left(tree / "own", tree.path()), std::nullopt);
  put(tree, "own", "0::/jobs/17\n");
  put(tree, "jobs/17/pids.max", "max\n");
  EXPECT_EQ(threads_left(tree / "own", tree.path()), std::nullopt);
  put(tree, "jobs/pids.max", "100\n");
  put(tree, "jobs/pids.current", "70\n");
  EXPECT_EQ(threads_left(tree / "own", tree.path()), 30);
  put(tree, "own", "7:pids:/b\n0::/\n");  // version 1
  put(tree, "pids/b/pids.max", "12\n");
  put(tree, "pids/b/pids.current", "20\n");
  EXPECT_EQ(threads_left(tree / "own", tree.path()), 0);
}

TEST(DoctorNccl, ConfigurationFile_IsReadWithoutItsComments) {
  const TemporaryDirectory home;
  write_file(home / ".nccl.conf", "# NCCL_DEBUG=INFO\n\nNCCL_P2P_DISABLE = 1\nnonsense\n");
  const Nccl nccl = look_for_nccl({{"HOME", home.path().string()}});
  EXPECT_EQ(value_of(nccl.settings, "NCCL_P2P_DISABLE"), "1");
  EXPECT_EQ(nccl.file_of.at("NCCL_P2P_DISABLE"), home / ".nccl.conf");
  EXPECT_EQ(nccl.settings.count("NCCL_DEBUG") + nccl.settings.count("# NCCL_DEBUG"), 0U);
}

TEST(DoctorProgram, Find_TakesTheFirstThatCanBeRun) {
  const TemporaryDirectory one;
  const TemporaryDirectory other;
  write_file(one / "tool", "not executable");
  write_file(other / "tool", "#!/bin/sh\n");
  std::filesystem::permissions(other / "tool", std::filesystem::perms::owner_all);
  EXPECT_EQ(find_program("tool", one.path().string() + ":" + other.path().string()),
            other / "tool");
  EXPECT_EQ(find_program("tool", one.path().string()), "");
  EXPECT_EQ(find_program("tool", "/no/such/directory"), "");
}

TEST(DoctorProgram, Ask_GivesWhatWasPrintedOrWhyNot) {
  const std::chrono::seconds limit(60);
  const ProgramAnswer good = ask_program({"/bin/sh", "-c", "echo yes; echo no >&2"}, limit);
  EXPECT_EQ(good.out, "yes\n");
  EXPECT_EQ(good.failure, "");
  EXPECT_EQ(ask_program({"/bin/sh", "-c", "exit 3"}, limit).failure, "it ended with 3");
  EXPECT_EQ(ask_program({"/bin/sh", "-c", "kill -9 $$"}, limit).failure, "it ended by signal 9");
  EXPECT_THAT(ask_program({"/no/such/program"}, limit).failure, HasSubstr("No such file"));
}

TEST(DoctorProgram, AskOneThatDoesNotEnd_IsEndedAtTheLimit) {
  const ProgramAnswer answer = ask_program({"/bin/sh", "-c", "exec sleep 1000"}, {});
  EXPECT_EQ(answer.failure, "it gave no answer in 0 s");
}

}  // namespace
}  // namespace shardsolve::cli::doctor
