// Findings about CUDA, GPUs, NCCL and the memory that JAX takes.

#include "tests/support/case_name.hpp"
#include "tests/support/doctor_surroundings.hpp"

#include <gtest/gtest.h>

namespace shardsolve::cli::doctor {
namespace {

template <int gpus>
Surroundings cpu_job_beside_gpus() {
  Surroundings s = healthy_with_gpus();
  s.driver.gpus = gpus;
  return s;
}

/// Two processes, which take a GPU each.
Surroundings processes_with_gpus() {
  Surroundings s = healthy_with_gpus();
  s.job = {.cuda = true, .mpi = true};
  s.launch = {.processes = 2, .on_host = 2, .launcher = "Open MPI"};
  return s;
}

/// A task of Slurm that sees two GPUs, on a node with two tasks.
Surroundings task_with_gpus() {
  Surroundings s = healthy_with_gpus();
  for (const char* variable : {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID"}) {
    s.environment[variable] = "4";
  }
  s.environment["SLURM_STEP_NODELIST"] = "node[7-8]";
  s.environment["SLURM_STEP_TASKS_PER_NODE"] = "2(x2)";
  s.environment["SLURM_LOCALID"] = "1";
  return s;
}

std::vector<Case> cuda_cases() {
  return {
      {"task_without_the_gpu_of_its_number",
       task_with_gpus,
       [](Surroundings& s) { s.cuda.gpus.pop_back(); },
       "slurm-gpu-of-task",
       Severity::warning,
       {"task 1 of this node", "sees 1 GPU, 0000:18:00.0", "no number 1", "--gpus-per-task"}},
      {"one_task_with_two_gpus",
       task_with_gpus,
       [](Surroundings& s) {
         s.environment["SLURM_LOCALID"] = "0";
         s.environment["SLURM_STEP_TASKS_PER_NODE"] = "1(x2)";
       },
       "slurm-gpus-left-out",
       Severity::warning,
       {"has 1 task of the job", "sees 2 GPUs", "idle", "--ntasks-per-node=2", "range(2)"}},
      {"two_tasks_on_one_gpu",
       task_with_gpus,
       [](Surroundings& s) {
         s.cuda.gpus.pop_back();
         s.environment["SLURM_LOCALID"] = "0";
         s.environment["SLURM_GPUS_ON_NODE"] = "1";
       },
       "slurm-gpu-shared",
       Severity::warning,
       {"2 tasks of the job", "and 1 GPU", "two processes take one card", "--ntasks-per-node=1"}},
      {"the_same_gpu_for_all_tasks",
       task_with_gpus,
       [](Surroundings& s) {
         s.environment["JAX_LOCAL_DEVICE_IDS"] = "0";
         s.environment["SLURM_GPUS_ON_NODE"] = "2";
       },
       "slurm-gpu-shared",
       Severity::warning,
       {"JAX_LOCAL_DEVICE_IDS=0 in a job of 2 tasks", "all see 2 GPUs", "SLURM_LOCALID"}},
      {"triton_on_a_volta",
       healthy_with_gpus,
       [](Surroundings& s) {
         s.environment["XLA_FLAGS"] = "--xla_gpu_enable_triton_gemm=true";
         s.cuda.architectures = "70-real 90-real";
         s.cuda.gpus[1].name = "V100";
         s.cuda.gpus[1].major = 7;
       },
       "xla-triton-old-gpu",
       Severity::note,
       {"V100, is of compute capability 7.0", "cuBLAS", "leave"}},
      {"library_missing",
       healthy_gpu_job,
       [](Surroundings& s) {
         s.cuda = {.failure = "no libcublas.so.13: pip install 'shardsolve[cuda13]'"};
       },
       "cuda-not-usable",
       Severity::error,
       {"libcublas.so.13", "--backend cuda fails"}},
      {"library_missing_beside_gpu",
       healthy_with_gpus,
       [](Surroundings& s) { s.cuda = {.failure = "built where CUDA 13 was not found"}; },
       "cuda-not-usable",
       Severity::warning,
       {"built where", "cannot use it"}},
      {"no_gpu_at_all",
       healthy,
       [](Surroundings& s) { s.job = {.cuda = true, .gpus = {0}}; },
       "cuda-not-usable",
       Severity::error,
       {"could not be loaded"}},
      {"no_peer_access",
       healthy_gpu_job,
       [](Surroundings& s) {
         s.links->topology.set_link(0, 1, comm::nominal_link(comm::LinkKind::host));
       },
       "no-peer-access",
       Severity::warning,
       {"GPU 1 does not reach the memory of GPU 0", "through the memory of the host", "IOMMU"}},
      {"no_peer_access_beside_cpu_job",
       healthy_with_gpus,
       [](Surroundings& s) {
         s.links->topology.set_link(1, 0, comm::nominal_link(comm::LinkKind::host));
       },
       "no-peer-access",
       Severity::note,
       {"GPU 0 does not reach the memory of GPU 1"}},
      {"no_peer_access_of_processes",
       processes_with_gpus,
       [](Surroundings& s) {
         s.links->topology.set_link(0, 1, comm::nominal_link(comm::LinkKind::host));
       },
       "no-peer-access",
       Severity::warning,
       {"GPU 1 does not reach the memory of GPU 0"}},
      {"more_processes_than_gpus",
       processes_with_gpus,
       [](Surroundings& s) { s.launch.processes = s.launch.on_host = 3; },
       "gpu-missing",
       Severity::error,
       {"this host has 3 processes of the mesh and 2 GPUs", "start fewer"}},
      {"gpu_of_a_process_busy",
       processes_with_gpus,
       [](Surroundings& s) { s.cuda.gpus[1].failure = "out of memory"; },
       "gpu-unusable",
       Severity::error,
       {"GPU 1", "out of memory"}},
      {"gpu_of_no_process_busy",
       processes_with_gpus,
       [](Surroundings& s) {
         s.launch.on_host = 1;
         s.cuda.gpus[1].failure = "out of memory";
       },
       "gpu-unusable",
       Severity::warning,
       {"GPU 1", "out of memory"}},
      {"no_driver",
       healthy_gpu_job,
       [](Surroundings& s) {
         s.cuda.driver = 0;
         s.cuda.gpus.clear();
       },
       "cuda-not-usable",
       Severity::error,
       {"no NVIDIA driver"}},
      {"old_driver",
       healthy_gpu_job,
       [](Surroundings& s) {
         s.cuda.driver = 12040;
         s.cuda.gpus.clear();
       },
       "cuda-not-usable",
       Severity::error,
       {"up to 12.4", "needs 13.0", "update the driver"}},
      {"gpu_number_too_large",
       healthy_gpu_job,
       [](Surroundings& s) { s.job.gpus = {0, 5}; },
       "gpu-missing",
       Severity::error,
       {"GPU 5", "sees 2", "up to 1"}},
      {"gpu_busy",
       healthy_gpu_job,
       [](Surroundings& s) {
         s.cuda.gpus[1].free_memory.reset();
         s.cuda.gpus[1].failure = "all CUDA-capable devices are busy or unavailable";
       },
       "gpu-unusable",
       Severity::error,
       {"GPU 1", "busy or unavailable"}},
      {"gpu_busy_not_asked_for",
       healthy_with_gpus,
       [](Surroundings& s) { s.cuda.gpus[0].failure = "out of memory"; },
       "gpu-unusable",
       Severity::warning,
       {"GPU 0", "out of memory"}},
      {"gpu_too_old",
       healthy_gpu_job,
       [](Surroundings& s) {
         s.cuda.gpus[0].major = 7;
         s.cuda.gpus[0].minor = 0;
       },
       "gpu-without-kernels",
       Severity::error,
       {"7.0", "CUDA 13", "80-real 90-real 100"}},
      {"t4_between_what_cuda_12_has",
       healthy_gpu_job,
       [](Surroundings& s) {
         s.cuda.runtime = 12090;
         s.cuda.has_both = true;
         s.cuda.architectures = "70-real 80-real 90-real";
         s.cuda.gpus[0].major = 7;
         s.cuda.gpus[0].minor = 5;
       },
       "gpu-without-kernels",
       Severity::error,
       {"7.5", "CUDA 12", "70-real 80-real"}},
      {"gpu_too_new_beside_another",
       healthy_with_gpus,
       [](Surroundings& s) {
         s.cuda.runtime = 12090;
         s.cuda.has_both = true;
         s.cuda.architectures = "70-real 80-real 90-real";
         s.cuda.gpus[1].major = 10;
         s.cuda.gpus[1].minor = 0;
       },
       "gpu-without-kernels",
       Severity::warning,
       {"GPU 1", "10.0", "CUDA 12"}},
      {"launch_blocking",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["CUDA_LAUNCH_BLOCKING"] = "1"; },
       "cuda-launch-blocking",
       Severity::warning,
       {"CUDA_LAUNCH_BLOCKING=1"}},
      {"library_path",
       healthy_with_gpus,
       [](Surroundings& s) {
         s.python.packages["nvidia-cublas"] = "13.0.2";
         s.cuda_libraries = {"/opt/cuda/libcublas.so.12"};
       },
       "ld-library-path-cuda",
       Severity::warning,
       {"/opt/cuda/libcublas.so.12"}},
      // ---- CUDA_VISIBLE_DEVICES
      {"all_hidden",
       cpu_job_beside_gpus<2>,
       [](Surroundings& s) { s.environment["CUDA_VISIBLE_DEVICES"] = ""; },
       "gpus-hidden",
       Severity::warning,
       {"hides all 2"}},
      {"all_hidden_by_number",
       healthy_gpu_job,
       [](Surroundings& s) { s.environment["CUDA_VISIBLE_DEVICES"] = "-1"; },
       "gpus-hidden",
       Severity::error,
       {"hides all 2", "unset CUDA_VISIBLE_DEVICES"}},
      {"some_hidden",
       cpu_job_beside_gpus<4>,
       [](Surroundings& s) { s.environment["CUDA_VISIBLE_DEVICES"] = "2, 3,-1"; },
       "gpus-hidden",
       Severity::note,
       {"2 of 4"}},
      {"semicolon",
       cpu_job_beside_gpus<2>,
       [](Surroundings& s) { s.environment["CUDA_VISIBLE_DEVICES"] = "0;1"; },
       "visible-devices-malformed",
       Severity::warning,
       {"'0;1'", "commas"}},
      {"empty_entry",
       cpu_job_beside_gpus<2>,
       [](Surroundings& s) { s.environment["CUDA_VISIBLE_DEVICES"] = "0,,1"; },
       "visible-devices-malformed",
       Severity::warning,
       {"an empty entry"}},
      {"number_too_large",
       healthy_gpu_job,
       [](Surroundings& s) { s.environment["CUDA_VISIBLE_DEVICES"] = "0,2"; },
       "visible-devices-malformed",
       Severity::error,
       {"holds 2", "0 to 1"}},
      {"twice",
       cpu_job_beside_gpus<2>,
       [](Surroundings& s) { s.environment["CUDA_VISIBLE_DEVICES"] = "1,1"; },
       "visible-devices-malformed",
       Severity::warning,
       {"1 twice"}},
      // ---- NCCL
      {"p2p_off",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["NCCL_P2P_DISABLE"] = "1"; },
       "nccl-p2p-off",
       Severity::warning,
       {"NCCL_P2P_DISABLE=1", "unset NCCL_P2P_DISABLE"}},
      {"p2p_level",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["NCCL_P2P_LEVEL"] = "LOC"; },
       "nccl-p2p-off",
       Severity::warning,
       {"NCCL_P2P_LEVEL=LOC"}},
      {"p2p_off_by_file",
       healthy_with_gpus,
       [](Surroundings& s) {
         s.nccl.settings["NCCL_P2P_DISABLE"] = "1";
         s.nccl.file_of["NCCL_P2P_DISABLE"] = "/etc/nccl.conf";
       },
       "nccl-p2p-off",
       Severity::warning,
       {"remove it from /etc/nccl.conf"}},
      {"shm_off",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["NCCL_SHM_DISABLE"] = "1"; },
       "nccl-shm-off",
       Severity::warning,
       {"NCCL_SHM_DISABLE=1"}},
      {"ib_off",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["NCCL_IB_DISABLE"] = "1"; },
       "nccl-ib-off",
       Severity::note,
       {"NCCL_IB_DISABLE=1", "TCP"}},
      {"nccl_defaults",
       healthy_with_gpus,
       [](Surroundings& s) {
         s.environment["NCCL_P2P_DISABLE"] = "0";
         s.environment["NCCL_IB_DISABLE"] = "0";
       },
       "nccl-default",
       Severity::note,
       {"NCCL_P2P_DISABLE=0, NCCL_IB_DISABLE=0", "the default", "unset NCCL_IB_DISABLE"}},
      // ---- JAX's memory
      {"fraction_of_all",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".99"; },
       "jax-pool-fraction",
       Severity::warning,
       {"MEM_FRACTION=.99", "0.9 or less"}},
      {"fraction_in_percent_sign",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "75%"; },
       "jax-pool-fraction",
       Severity::error,
       {"75%", "no number above 0"}},
      {"fraction_twice",
       healthy_with_gpus,
       [](Surroundings& s) {
         s.environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.5";
         s.environment["XLA_CLIENT_MEM_FRACTION"] = "0.5";
       },
       "jax-pool-fraction",
       Severity::error,
       {"both set", "older name"}},
      {"pool_grows",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"; },
       "jax-pool-grows",
       Severity::note,
       {"in one piece"}},
      {"preallocate_off",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "off"; },
       "jax-preallocate-value",
       Severity::warning,
       {"for true", "=false"}},
      {"allocator_unknown",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["XLA_PYTHON_CLIENT_ALLOCATOR"] = "malloc"; },
       "jax-allocator",
       Severity::error,
       {"malloc", "cuda_async"}},
      {"allocator_platform",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"; },
       "jax-allocator",
       Severity::warning,
       {"asks the driver"}},
      {"memory_taken",
       healthy_with_gpus,
       [](Surroundings& s) { s.cuda.gpus[1].free_memory = std::int64_t{30} << 30U; },
       "gpu-memory-taken",
       Severity::warning,
       {"GPU 1", "32.2 of 150 GB", "nvidia-smi"}},
  };
}

class DoctorOfGpus : public ::testing::TestWithParam<Case> {};

TEST_P(DoctorOfGpus, OneThingIsWrong_ExactlyThatIsFound) { expect_finding(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, DoctorOfGpus, ::testing::ValuesIn(cuda_cases()), testing::CaseName());

TEST(Doctor, TaskOfSlurm_WhoseGpusAreChosenOrWithoutJax_IsWell) {
  for (const auto& spoil : {+[](Surroundings&) {},
                            +[](Surroundings& s) {
                              s.cuda.gpus.pop_back();
                              s.environment["JAX_LOCAL_DEVICE_IDS"] = "0";
                            },
                            +[](Surroundings& s) {
                              s.environment["JAX_LOCAL_DEVICE_IDS"] = "0";
                              s.environment["SLURM_GPUS_PER_TASK"] = "2";
                            },
                            +[](Surroundings& s) {
                              s.cuda.gpus.pop_back();
                              s.python.packages.clear();
                            }}) {
    Surroundings s = task_with_gpus();
    spoil(s);
    for (const Finding& finding : judge(s)) {
      EXPECT_EQ(finding.code.find("slurm"), std::string::npos) << finding.found;
    }
  }
}

TEST(DoctorText, TaskOfSlurm_SaysWhichGpuJaxTakesByUuid) {
  Surroundings s = task_with_gpus();
  s.cuda.gpus[1].bus_id = "0000:3B:00.0";
  s.driver.uuids = {{"0000:18:00.0", "GPU-one"}, {"0000:3b:00.0", "GPU-two"}};
  const Diagnosis diagnosis = diagnosis_of(s);
  EXPECT_THAT(text_of(diagnosis), ::testing::HasSubstr("at 0000:3B:00.0, GPU-two"));
  EXPECT_THAT(text_of(diagnosis),
              ::testing::HasSubstr("1 of 2 on node7 under Slurm: JAX takes GPU 1, GPU-two"));
  EXPECT_THAT(json_of(diagnosis), ::testing::HasSubstr("\"uuid\": \"GPU-one\""));
  s.cuda.gpus.pop_back();
  EXPECT_THAT(text_of(diagnosis_of(s)), ::testing::HasSubstr("under Slurm: JAX takes none"));
  s.environment["JAX_LOCAL_DEVICE_IDS"] = "0";
  EXPECT_THAT(text_of(diagnosis_of(s)), ::testing::Not(::testing::HasSubstr("under Slurm")));
}

TEST(Doctor, TritonThatIsOff_IsNoMatterOnAnyGpu) {
  Surroundings s = healthy_with_gpus();
  s.cuda.gpus[0].major = 7;
  s.environment["XLA_FLAGS"] = "--xla_gpu_enable_triton_gemm=false";
  for (const Finding& finding : judge(s)) {
    EXPECT_NE(finding.code, "xla-triton-old-gpu");
  }
}

TEST(Doctor, NcclSettingIsOffInTheEnvironment_TheFileDoesNotCount) {
  Surroundings s = healthy_with_gpus();
  s.nccl.settings["NCCL_P2P_DISABLE"] = "1";
  s.nccl.file_of["NCCL_P2P_DISABLE"] = "/etc/nccl.conf";
  s.environment["NCCL_P2P_DISABLE"] = "0";
  EXPECT_TRUE(judge(s).empty());
}

TEST(Doctor, ProcessesWithAGpuEach_NothingIsFound) {
  Surroundings s = processes_with_gpus();
  EXPECT_TRUE(judge(s).empty());
  s.cuda.gpus.resize(1);  // the launcher shows each process its own
  s.links.reset();
  EXPECT_TRUE(judge(s).empty());
}

TEST(Doctor, GpuIdentifiers_AreAccepted) {
  Surroundings s = healthy_with_gpus();
  s.environment["CUDA_VISIBLE_DEVICES"] = "GPU-5ebe9f43, MIG-7e0a";
  EXPECT_TRUE(judge(s).empty());
}

TEST(Doctor, SettingsForGpusWithoutAGpu_NothingIsFound) {
  Surroundings s = healthy();
  s.environment = {{"NCCL_P2P_DISABLE", "1"},
                   {"CUDA_VISIBLE_DEVICES", "0;1"},
                   {"CUDA_LAUNCH_BLOCKING", "1"},
                   {"XLA_PYTHON_CLIENT_MEM_FRACTION", "2"},
                   {"JAX_PLATFORMS", "cpu"}};
  EXPECT_TRUE(judge(s).empty());
}

}  // namespace
}  // namespace shardsolve::cli::doctor
