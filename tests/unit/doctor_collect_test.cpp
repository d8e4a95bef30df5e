// Looking around: files of the system and other programs.

#include "cli/doctor/collect.hpp"
#include "cli/doctor/program.hpp"
#include "tests/support/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

namespace shardsolve::cli::doctor {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;
using testing::write_file;

TEST(DoctorNccl, ConfigurationFile_IsReadWithoutItsComments) {
  const TemporaryDirectory home;
  write_file(home / ".nccl.conf", "# NCCL_DEBUG=INFO\n\nNCCL_P2P_DISABLE = 1\nnonsense\n");
  const Nccl nccl = look_for_nccl({{"HOME", home.path().string()}});
  EXPECT_EQ(value_of(nccl.settings, "NCCL_P2P_DISABLE"), "1");
  EXPECT_EQ(nccl.file_of.at("NCCL_P2P_DISABLE"), home / ".nccl.conf");
  EXPECT_EQ(nccl.settings.count("NCCL_DEBUG") + nccl.settings.count("# NCCL_DEBUG"), 0U);
}

TEST(DoctorDriver, GpusOfTheDriver_HaveTheirUuids) {
  const TemporaryDirectory folder;
  write_file(folder / "version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun\n");
  for (const auto& [bus, text] :
       {std::pair{"0000:3b:00.0", "Model: \t H200\nGPU UUID: \t GPU-1a\n"},
        std::pair{"0000:18:00.0", "Model: \t H200\n"}}) {
    const std::filesystem::path gpu = folder.path() / "gpus" / bus;
    std::filesystem::create_directories(gpu);
    write_file((gpu / "information").string(), text);
  }
  const Driver driver = look_at_driver(folder.path());
  EXPECT_EQ(driver.version, "580.65.06");
  EXPECT_EQ(driver.gpus, 2);
  EXPECT_EQ(driver.uuids, (std::map<std::string, std::string>{{"0000:3b:00.0", "GPU-1a"}}));
  EXPECT_EQ(look_at_driver(folder / "no").gpus, 0);
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
