/// Surroundings in which nothing is wrong, for tests that break one thing at a time.
#pragma once

#include "cli/doctor/choice.hpp"
#include "cli/doctor/diagnosis.hpp"
#include "cli/doctor/findings.hpp"
#include "cli/doctor/surroundings.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace shardsolve::cli::doctor {

/// A machine with four cores, without a GPU, with an Open MPI and a JAX of the supported range.
inline Surroundings healthy() {
  Surroundings s;
  s.job.devices = 4;
  s.host = {.name = "node7",
            .cpu = "a CPU",
            .avx2 = true,
            .cores = 4,
            .allowed_cores = 4,
            .memory = std::int64_t{64} << 30U,
            .available_memory = std::int64_t{60} << 30U,
            .shared_memory = std::int64_t{30} << 30U};
  s.blas = {"libopenblas.a", false, "OpenBLAS 0.3.21", "Haswell"};
  s.cuda.failure = "the CUDA library of shardsolve could not be loaded: it is not there";
  s.mpi = {"/lib/libshardsolve_mpi.so", "", "Open MPI v4.1.4, package", "/lib/libmpi.so.40"};
  s.mpirun = {"/usr/bin/mpirun", "mpirun (Open MPI) 4.1.4"};
  s.python.path = "/usr/bin/python3";
  s.python.version = "3.11.2";
  s.python.packages = {{"jax", "0.10.2"}, {"jaxlib", "0.10.2"}, {"shardsolve", "0.1.0"}};
  return s;
}

/// Likewise with two GPUs, and a JAX that can use them.
inline Surroundings healthy_with_gpus() {
  Surroundings s = healthy();
  s.driver = {"580.65.06", 2};
  s.cuda = {.library = "/lib/libshardsolve_cuda.so",
            .runtime = 13000,
            .driver = 13000,
            .architectures = "80-real 90-real 100"};
  const mesh::GpuFacts gpu{.name = "H200",
                           .bus_id = "0000:18:00.0",
                           .major = 9,
                           .memory = std::int64_t{140} << 30U,
                           .free_memory = std::int64_t{139} << 30U};
  s.cuda.gpus = {gpu, gpu};
  comm::Topology topology(2);
  topology.set_link(0, 1, comm::nominal_link(comm::LinkKind::nvlink));
  topology.set_link(1, 0, comm::nominal_link(comm::LinkKind::nvlink));
  s.links = {{0, 1}, topology, std::nullopt};
  s.python.packages.insert({{"jax-cuda13-plugin", "0.10.2"}, {"jax-cuda13-pjrt", "0.10.2"}});
  return s;
}

/// The same as a job on both GPUs.
inline Surroundings healthy_gpu_job() {
  Surroundings s = healthy_with_gpus();
  s.job = {.cuda = true, .devices = 2, .gpus = {0, 1}};
  return s;
}

/// What the doctor says without measuring.
inline Diagnosis diagnosis_of(const Surroundings& s) {
  return {s, choose(s), judge(s), std::nullopt};
}

/// One thing that is wrong, and the finding that says so.
struct Case {
  std::string name;
  Surroundings (*base)();
  void (*spoil)(Surroundings&);
  std::string code;
  Severity severity;
  std::vector<std::string> words;  ///< in what was found, why it matters, what to do

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

/// That there is exactly one finding, and that one.
inline void expect_finding(const Case& c) {
  Surroundings s = c.base();
  c.spoil(s);
  const Findings findings = judge(s);
  std::vector<std::string> codes;
  for (const Finding& one : findings) {
    codes.push_back(one.code);
  }
  ASSERT_THAT(codes, ::testing::ElementsAre(c.code));
  EXPECT_EQ(findings.front().severity, c.severity);
  const Finding& finding = findings.front();
  EXPECT_FALSE(finding.why.empty());
  EXPECT_FALSE(finding.remedy.empty());
  for (const std::string& word : c.words) {
    EXPECT_THAT(finding.found + "\n" + finding.why + "\n" + finding.remedy,
                ::testing::HasSubstr(word));
  }
}

}  // namespace shardsolve::cli::doctor
