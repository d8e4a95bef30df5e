// Findings about cores, memory, the BLAS and MPI.

#include "cli/doctor/launch.hpp"
#include "tests/support/case_name.hpp"
#include "tests/support/doctor_surroundings.hpp"

#include <gtest/gtest.h>

namespace shardsolve::cli::doctor {
namespace {

TEST(Doctor, HealthySurroundings_NothingIsFound) {
  for (const auto base : {healthy, healthy_with_gpus, healthy_gpu_job}) {
    for (const Finding& one : judge(base())) {
      ADD_FAILURE() << one.code << ": " << one.found;
    }
  }
}

TEST(Doctor, SeveralFindings_ErrorsComeFirst) {
  Surroundings s = healthy();
  s.environment = {{"OMP_NUM_THREADS", "64"}, {"XLA_FLAGS", "--xla_dump_too=/tmp"}};
  const Findings findings = judge(s);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].code, "xla-unknown-flag");
  EXPECT_EQ(findings[1].code, "threads-over-cores");
}

Surroundings under_mpirun() {
  Surroundings s = healthy();
  s.launch = {.processes = 4, .on_host = 4, .rank = 0, .launcher = "Open MPI"};
  s.job = {.devices = 1, .mpi = true};
  return s;
}

Surroundings with_mpi_on() {
  Surroundings s = healthy();
  s.job = {.devices = 1, .mpi = true};
  return s;
}

std::vector<Case> host_cases() {
  const auto set_threads = [](Surroundings& s) { s.environment["OMP_NUM_THREADS"] = "8"; };
  return {
      // ---- cores
      {"more_devices_than_affinity",
       healthy,
       [](Surroundings& s) { s.host.allowed_cores = 2; },
       "devices-over-cores",
       Severity::warning,
       {"4 CPU devices on 2 cores", "--devices 2"}},
      {"more_devices_than_one_core",
       healthy,
       [](Surroundings& s) { s.host.allowed_cores = s.host.cores = 1; },
       "devices-over-cores",
       Severity::warning,
       {"4 CPU devices on 1 core: 1 of the machine's 1 core can be used"}},
      {"quota_of_one_core",
       healthy,
       [](Surroundings& s) {
         s.host.quota = 1.0;
         s.job.devices = 1;
       },
       "cpu-quota",
       Severity::note,
       {"1 core's worth of CPU time, 4 cores are seen"}},
      {"more_processes_than_cores",
       under_mpirun,
       [](Surroundings& s) { s.launch.on_host = 6; },
       "devices-over-cores",
       Severity::warning,
       {"6 processes on a host of 4 cores"}},
      {"quota",
       healthy,
       [](Surroundings& s) {
         s.host.quota = 1.5;
         s.job.devices = 2;
       },
       "cpu-quota",
       Severity::note,
       {"1.5 cores", "OMP_NUM_THREADS=2"}},
      {"omp_threads",
       healthy,
       set_threads,
       "threads-over-cores",
       Severity::warning,
       {"OMP_NUM_THREADS=8", "4 cores", "one thread a rank", "export OMP_NUM_THREADS=4"}},
      {"omp_threads_of_levels",
       healthy,
       [](Surroundings& s) { s.environment["OMP_NUM_THREADS"] = " 6,2"; },
       "threads-over-cores",
       Severity::warning,
       {"OMP_NUM_THREADS=6"}},
      {"openblas_threads_of_processes",
       under_mpirun,
       [](Surroundings& s) { s.environment["OPENBLAS_NUM_THREADS"] = "2"; },
       "threads-over-cores",
       Severity::warning,
       {"in each of 4 processes", "export OPENBLAS_NUM_THREADS=1"}},
      {"mkl_threads",
       healthy,
       [](Surroundings& s) { s.environment["MKL_NUM_THREADS"] = "5"; },
       "threads-over-cores",
       Severity::warning,
       {"MKL_NUM_THREADS=5"}},
      {"threads_in_words",
       healthy,
       [](Surroundings& s) { s.environment["OMP_NUM_THREADS"] = "four"; },
       "threads-not-a-number",
       Severity::warning,
       {"OMP_NUM_THREADS=four", "ignored"}},
      {"no_threads",
       healthy,
       [](Surroundings& s) { s.environment["MKL_NUM_THREADS"] = "0"; },
       "threads-not-a-number",
       Severity::warning,
       {"MKL_NUM_THREADS=0"}},
      {"nproc_missing",
       healthy,
       [](Surroundings& s) {
         s.environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4";
       },
       "nproc-below-devices",
       Severity::note,
       {"4 CPU devices", "4 threads", "waits for none", "NPROC=8"}},
      {"nproc_too_small",
       healthy,
       [](Surroundings& s) { s.environment = {{"JAX_NUM_CPU_DEVICES", "3"}, {"NPROC", "5"}}; },
       "nproc-below-devices",
       Severity::note,
       {"3 CPU devices", "NPROC=5", "NPROC=6"}},
      // ---- memory and limits
      {"address_space",
       healthy,
       [](Surroundings& s) { s.host.address_space = std::int64_t{8} << 30U; },
       "address-space-limit",
       Severity::warning,
       {"8.59 GB of addresses", "ulimit -v unlimited"}},
      {"address_space_beside_gpu",
       healthy_with_gpus,
       [](Surroundings& s) { s.host.address_space = std::int64_t{100} << 30U; },
       "address-space-limit",
       Severity::warning,
       {"CUDA reserves"}},
      {"address_space_of_gpu_job",
       healthy_gpu_job,
       [](Surroundings& s) { s.host.address_space = std::int64_t{100} << 30U; },
       "address-space-limit",
       Severity::error,
       {"does not start"}},
      {"strict_overcommit",
       healthy,
       [](Surroundings& s) {
         s.host.strict_commit = true;
         s.host.commit_left = std::int64_t{1} << 30U;
       },
       "strict-overcommit",
       Severity::warning,
       {"overcommit_memory is 2", "1.07 GB"}},
      {"few_threads",
       healthy,
       [](Surroundings& s) { s.host.threads = 10; },
       "thread-limit",
       Severity::error,
       {"ulimit -u allows this user 10", "4 devices need 20"}},
      {"many_threads_in_use",
       healthy,
       [](Surroundings& s) {
         s.host.threads = 1000;
         s.host.threads_in_use = 990;
       },
       "thread-limit",
       Severity::error,
       {"1000 threads and processes, and 990 are there", "ulimit -u 1070"}},
      {"few_threads_of_the_group",
       healthy,
       [](Surroundings& s) { s.host.group_threads = 19; },
       "thread-limit",
       Severity::error,
       {"control group allows 19", "4 devices need 20", "--pids-limit"}},
      {"few_threads_for_one_device",
       healthy,
       [](Surroundings& s) {
         s.job.devices = 1;
         s.host.group_threads = 4;
       },
       "thread-limit",
       Severity::error,
       {"control group allows 4", "1 device needs 5"}},
      {"small_shm_under_mpirun",
       under_mpirun,
       [](Surroundings& s) { s.host.shared_memory = 64 << 20; },
       "small-shared-memory",
       Severity::warning,
       {"67.1 MB", "--shm-size"}},
      {"small_shm_with_gpus",
       healthy_with_gpus,
       [](Surroundings& s) { s.host.shared_memory = 64 << 20; },
       "small-shared-memory",
       Severity::warning,
       {"NCCL"}},
      // ---- BLAS
      {"old_kernels",
       healthy,
       [](Surroundings& s) { s.blas.kernels = "Prescott"; },
       "blas-old-kernels",
       Severity::warning,
       {"Prescott", "AVX2", "OPENBLAS_CORETYPE=Haswell"}},
      {"old_kernels_asked_for",
       healthy,
       [](Surroundings& s) {
         s.blas.kernels = "Nehalem";
         s.environment["OPENBLAS_CORETYPE"] = "NEHALEM";
       },
       "blas-old-kernels",
       Severity::warning,
       {"unset OPENBLAS_CORETYPE"}},
      {"shared_blas",
       healthy,
       [](Surroundings& s) { s.blas = {"libmkl_rt.so", true, "", ""}; },
       "shared-blas-threads",
       Severity::warning,
       {"libmkl_rt.so", "MKL_NUM_THREADS"}},
      // ---- MPI
      {"mpi_missing",
       under_mpirun,
       [](Surroundings& s) { s.mpi.failure = "no libmpi.so.40"; },
       "mpi-missing",
       Severity::error,
       {"4 processes", "no libmpi.so.40", "--devices"}},
      {"launcher_of_another_mpi",
       under_mpirun,
       [](Surroundings& s) { s.launch.launcher = "MPICH"; },
       "mpi-mismatch",
       Severity::error,
       {"launcher of MPICH", "Open MPI v4.1.4", "/lib/libmpi.so.40"}},
      {"srun_without_pmi",
       under_mpirun,
       [](Surroundings& s) {
         s.launch.launcher = "Slurm";
         s.launch.connects = false;
       },
       "srun-without-pmi",
       Severity::error,
       {"srun --mpi=pmix"}},
      {"variables_of_an_mpirun_that_was_not_there",
       under_mpirun,
       [](Surroundings& s) {
         s.launch = launch_of({{"OMPI_COMM_WORLD_SIZE", "4"}}, 4);
         s.launch.on_host = 4;
       },
       "mpi-not-launched",
       Severity::error,
       {"OMPI_COMM_WORLD_SIZE=4", "with itself alone", "unset"}},
      {"mpi_on_without_a_launcher",
       with_mpi_on,
       [](Surroundings&) {},
       "mpi-alone",
       Severity::warning,
       {"no launcher", "mpirun -np 4"}},
      {"mpi_on_without_mpi",
       with_mpi_on,
       [](Surroundings& s) { s.mpi.failure = "no libmpi.so.40"; },
       "mpi-missing",
       Severity::error,
       {"no libmpi.so.40"}},
      {"mpirun_of_another_mpi",
       healthy,
       [](Surroundings& s) { s.mpirun.says = "HYDRA build details:"; },
       "mpi-mismatch",
       Severity::warning,
       {"/usr/bin/mpirun", "MPICH", "Open MPI v4.1.4"}},
  };
}

class DoctorOfHost : public ::testing::TestWithParam<Case> {};

TEST_P(DoctorOfHost, OneThingIsWrong_ExactlyThatIsFound) { expect_finding(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, DoctorOfHost, ::testing::ValuesIn(host_cases()), testing::CaseName());

TEST(Doctor, SharedBlasWithOneThread_NothingIsFound) {
  Surroundings s = healthy();
  s.blas.shared = true;
  s.environment["OPENBLAS_NUM_THREADS"] = "1";
  EXPECT_TRUE(judge(s).empty());
}

TEST(Doctor, EnoughThreads_NothingIsFound) {
  Surroundings s = healthy();
  s.host.threads = 1000;
  s.host.threads_in_use = 980;
  s.host.group_threads = 20;
  EXPECT_TRUE(judge(s).empty());
}

TEST(Doctor, EnoughThreadsForXla_NothingIsFound) {
  Surroundings s = healthy();
  s.environment = {{"XLA_FLAGS", "--xla_force_host_platform_device_count=4"}, {"NPROC", "8"}};
  EXPECT_TRUE(judge(s).empty());
}

// ---- how the process was started

TEST(DoctorLaunch, SizesLeftOverFromAnotherJob_AreNoLargerThanTheMesh) {
  const Environment left{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}};
  EXPECT_EQ(launch_of(left, 2).on_host, 2);
  EXPECT_EQ(launch_of({{"OMPI_COMM_WORLD_LOCAL_SIZE", "-3"}}, 2).on_host, 1);
}

TEST(DoctorLaunch, OpenMpi_RankAndSizesAreRead) {
  const Launch launch = launch_of({{"OMPI_COMM_WORLD_SIZE", "8"},
                                   {"OMPI_COMM_WORLD_RANK", "3"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                   {"PMIX_NAMESPACE", "1929379841"}},
                                  8);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.on_host, 4);
  EXPECT_EQ(launch.launcher, "Open MPI");
  EXPECT_TRUE(launch.connects);
}

TEST(DoctorLaunch, Hydra_IsOfMpich) {
  const Launch launch =
      launch_of({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}}, 2);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.on_host, 2);
  EXPECT_EQ(launch.launcher, "MPICH");
}

TEST(DoctorLaunch, SrunWithoutPmi_DoesNotConnect) {
  const Environment srun{
      {"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_PROCID", "5"}, {"SLURM_STEP_TASKS_PER_NODE", "3(x2)"}};
  EXPECT_EQ(launch_of(srun, 6).rank, 5);
  EXPECT_EQ(launch_of(srun, 6).on_host, 3);
  EXPECT_EQ(launch_of(srun, 6).launcher, "Slurm");
  EXPECT_FALSE(launch_of(srun, 6).connects);
  Environment with_pmix = srun;
  with_pmix["PMIX_RANK"] = "5";
  EXPECT_TRUE(launch_of(with_pmix, 6).connects);
}

TEST(DoctorLaunch, OneProcess_SpeaksWhateverTheEnvironment) {
  // a command in a batch script, or --mpi off
  EXPECT_EQ(launch_of({{"SLURM_PROCID", "2"}, {"OMPI_COMM_WORLD_RANK", "3"}}, 1).rank, 0);
}

}  // namespace
}  // namespace shardsolve::cli::doctor
