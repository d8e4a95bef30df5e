// Which devices compute and why, and how that is said.

#include "cli/doctor/choice.hpp"
#include "cli/doctor/diagnosis.hpp"
#include "tests/support/doctor_surroundings.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace shardsolve::cli::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DoctorChoice, CpuJob_SaysWhyNoGpu) {
  const Choice choice = choose(healthy());
  EXPECT_EQ(choice.backend, "cpu");
  EXPECT_EQ(choice.devices, "4 CPU devices");
  EXPECT_THAT(choice.why, HasSubstr("there is no GPU"));
  EXPECT_EQ(choice.jax, "cpu");
  EXPECT_THAT(choice.jax_why, HasSubstr("no support for GPUs"));
}

TEST(DoctorChoice, GpuIsThere_TheCommandStaysOnTheCpuAndJaxDoesNot) {
  const Choice choice = choose(healthy_with_gpus());
  EXPECT_EQ(choice.backend, "cpu");
  EXPECT_THAT(choice.why, HasSubstr("--backend cuda takes GPUs"));
  EXPECT_EQ(choice.jax, "cuda");
}

TEST(DoctorChoice, GpuThatCannotBeUsed_SaysWhy) {
  Surroundings s = healthy_with_gpus();
  s.cuda.failure = "no libcublas.so.13";
  EXPECT_THAT(choose(s).why, HasSubstr("no libcublas.so.13"));
}

TEST(DoctorChoice, GpuJob_NamesTheGpus) {
  const Choice choice = choose(healthy_gpu_job());
  EXPECT_EQ(choice.backend, "cuda");
  EXPECT_EQ(choice.devices, "GPUs 0, 1");
}

TEST(DoctorChoice, Processes_AreDevices) {
  Surroundings s = healthy();
  s.job.mpi = true;
  EXPECT_EQ(choose(s).devices, "1 process, a CPU device");
  EXPECT_THAT(choose(s).why, HasSubstr("no launcher"));
  s.launch.processes = 3;
  EXPECT_THAT(choose(s).devices, HasSubstr("3 processes"));
}

TEST(DoctorChoice, DevicesThatWereAskedFor_AreNoDefault) {
  Surroundings s = healthy();
  EXPECT_THAT(choose(s).why, HasSubstr("the default"));
  s.job.chosen = true;
  EXPECT_THAT(choose(s).why, HasSubstr("as --devices asks"));
}

TEST(DoctorChoice, JaxPlatforms_TheFirstOneCounts) {
  Surroundings s = healthy_with_gpus();
  s.environment["JAX_PLATFORMS"] = "cpu,cuda";
  EXPECT_EQ(choose(s).jax, "cpu");
}

TEST(DoctorChoice, JaxPlatformWithoutSupport_IsPassedOver) {
  Surroundings s = healthy();
  s.environment["JAX_PLATFORMS"] = "cuda,cpu";
  EXPECT_EQ(choose(s).jax, "cpu");
  EXPECT_THAT(choose(s).jax_why, HasSubstr("of JAX_PLATFORMS"));
  EXPECT_TRUE(judge(s).empty());
}

TEST(DoctorChoice, NoGpuIsSeen_JaxTakesTheCpu) {
  Surroundings s = healthy_with_gpus();
  s.cuda.gpus.clear();
  EXPECT_EQ(choose(s).jax, "cpu");
  EXPECT_EQ(choose(s).jax_why, "no GPU is seen");
}

TEST(DoctorChoice, NoJax_SaysSo) {
  Surroundings s = healthy();
  s.python.packages.clear();
  EXPECT_EQ(choose(s).jax, "");
  EXPECT_THAT(choose(s).jax_why, HasSubstr("/usr/bin/python3 has no JAX"));
}

TEST(DoctorChoice, DriverOfTheSameMajorVersion_IsNewEnough) {
  Surroundings s = healthy_gpu_job();
  s.cuda.runtime = 13020;
  EXPECT_EQ(reason_against_cuda(s), "");
}

TEST(DoctorHost, UsableCores_AreTheLeastOfAffinityAndQuota) {
  Host host{.cores = 64, .allowed_cores = 8};
  EXPECT_EQ(host.usable_cores(), 8);
  host.quota = 2.5;
  EXPECT_EQ(host.usable_cores(), 3);
  host.quota = 0.2;
  EXPECT_EQ(host.usable_cores(), 1);
  host.quota = 100.0;
  EXPECT_EQ(host.usable_cores(), 8);
}

/// Seen with jax 0.10.2: its own variable goes before XLA's flag.
TEST(DoctorHost, JaxCpuDevices_AreThoseOfItsOwnVariable) {
  Surroundings s = healthy();
  s.environment = {{"JAX_NUM_CPU_DEVICES", "2"},
                   {"XLA_FLAGS", "--xla_force_host_platform_device_count=8"}};
  EXPECT_TRUE(judge(s).empty());
}

TEST(DoctorText, NothingIsWrong_SaysSoAndShowsWhatThereIs) {
  const std::string text = text_of(diagnosis_of(healthy_with_gpus()));
  for (const char* word : {"on node7", "4 of 4 cores", "OpenBLAS 0.3.21", "GPU 1", "H200",
                           "compute capability 9.0", "580.65.06 knows CUDA up", "Open MPI v4.1.4",
                           "jaxlib 0.10.2", "0.8.1 and later", "Nothing is wrong"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
  EXPECT_THAT(text, Not(HasSubstr("Measured")));
}

TEST(DoctorText, OneCore_IsNotSeveral) {
  Surroundings s = healthy();
  s.host.cores = s.host.allowed_cores = s.job.devices = 1;
  EXPECT_THAT(text_of(diagnosis_of(s)), HasSubstr("1 of 1 core usable"));
}

TEST(DoctorText, Findings_AreCountedAndKeepToTheLine) {
  Surroundings s = healthy();
  s.environment = {{"OMP_NUM_THREADS", "64"}, {"XLA_FLAGS", "--xla_dump_too=/tmp"}};
  const std::string text = text_of(diagnosis_of(s));
  EXPECT_THAT(text, HasSubstr("Found: 1 error, 1 warning"));
  EXPECT_THAT(text, HasSubstr("-> --xla_dump_to is probably meant"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(DoctorText, Rates_AreOneRangeOverDevices) {
  Diagnosis diagnosis = diagnosis_of(healthy());
  diagnosis.rates = Rates{{{20e9, 30e9}, {21e9, 30e9}}, 5e9};
  const std::string text = text_of(diagnosis);
  EXPECT_THAT(text, HasSubstr("20 to 21 GB/s on each of 2 devices"));
  EXPECT_THAT(text, HasSubstr("30 GFLOP/s"));
  EXPECT_THAT(text, HasSubstr("5 GB/s from device 0"));
}

TEST(DoctorText, Links_AreThoseOfEachGpu) {
  Surroundings s = healthy_with_gpus();
  s.links->gpus = {2, 5};
  EXPECT_THAT(text_of(diagnosis_of(s)), HasSubstr("GPU 2 to  GPU 5 NVLink 200 GB/s (nominal)"));
  s.links->measured = s.links->topology;
  s.links->measured->set_link(0, 1, {comm::LinkKind::pcie, 21.5});
  EXPECT_THAT(text_of(diagnosis_of(s)), HasSubstr("GPU 2 to  GPU 5 PCIe 21.5 GB/s (measured)"));
}

TEST(DoctorText, RankOfSeveral_SaysWhoseViewItIs) {
  Surroundings s = healthy();
  s.launch = {.processes = 4, .on_host = 4, .launcher = "Open MPI"};
  EXPECT_THAT(text_of(diagnosis_of(s)), HasSubstr("rank 0 of 4 processes"));
}

TEST(DoctorJson, Findings_AreWhole) {
  Surroundings s = healthy();
  s.environment["XLA_FLAGS"] = "--xla_dump_too=/tmp";
  const auto document = nlohmann::json::parse(json_of(diagnosis_of(s)));
  EXPECT_EQ(document["status"], "errors");
  ASSERT_EQ(document["findings"].size(), 1U);
  EXPECT_EQ(document["findings"][0]["code"], "xla-unknown-flag");
  EXPECT_EQ(document["findings"][0]["severity"], "error");
  EXPECT_EQ(document["measured"], nullptr);
}

TEST(DoctorJson, GpusAndRates_HaveTheirNumbers) {
  Diagnosis diagnosis = diagnosis_of(healthy_with_gpus());
  diagnosis.rates = Rates{{{20e9, 30e9}}, std::nullopt};
  const auto document = nlohmann::json::parse(json_of(diagnosis));
  EXPECT_EQ(document["status"], "ok");
  EXPECT_EQ(document["gpus"].size(), 2U);
  EXPECT_EQ(document["gpus"][1]["compute_capability"], "9.0");
  EXPECT_EQ(document["cuda"]["runtime"], "13.0");
  EXPECT_EQ(document["links"]["links"].size(), 2U);
  EXPECT_EQ(document["links"]["links"][1]["kind"], "NVLink");
  EXPECT_EQ(document["measured"]["devices"][0]["gemm_gflops"], 30.0);
  EXPECT_EQ(document["measured"]["broadcast_gbytes_per_s"], nullptr);
}

}  // namespace
}  // namespace shardsolve::cli::doctor
