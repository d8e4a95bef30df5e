// How GPUs of a job reach each other, and the ring that they make, in made-up surroundings.

#include "cli/doctor/choice.hpp"
#include "cli/doctor/diagnosis.hpp"
#include "tests/support/case_name.hpp"
#include "tests/support/doctor_surroundings.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>

namespace shardsolve::cli::doctor {
namespace {

using comm::LinkKind;
using ::testing::HasSubstr;
using ::testing::Not;

/// All GPUs linked alike.
comm::Topology all_by(LinkKind kind, std::int64_t gpus) {
  comm::Topology topology(gpus);
  for (std::int64_t from = 0; from < gpus; ++from) {
    for (std::int64_t to = 0; to < gpus; ++to) {
      if (from != to) {
        topology.set_link(from, to, comm::nominal_link(kind));
      }
    }
  }
  return topology;
}

/// In both directions.
void set_links(comm::Topology& topology, std::int64_t one, std::int64_t other, comm::Link link) {
  topology.set_link(one, other, link);
  topology.set_link(other, one, link);
}

/// A job of one process on so many GPUs.
Surroundings gpu_job(int gpus) {
  Surroundings s = healthy_gpu_job();
  s.cuda.gpus.resize(static_cast<std::size_t>(gpus), s.cuda.gpus.front());
  s.driver.gpus = gpus;
  s.job.devices = gpus;
  s.job.gpus.resize(static_cast<std::size_t>(gpus));
  std::iota(s.job.gpus.begin(), s.job.gpus.end(), 0);
  s.links = {s.job.gpus, all_by(LinkKind::nvlink, gpus), std::nullopt};
  return s;
}

/// Four processes of one host, which take a GPU each.
Surroundings processes() {
  Surroundings s = gpu_job(4);
  s.job = {.cuda = true, .mpi = true};
  s.launch = {.processes = 4, .on_host = 4, .launcher = "Open MPI"};
  return s;
}

/// As a launcher leaves it that shows each process its own GPU.
void show_one(Surroundings& s) {
  s.cuda.gpus.resize(1);
  s.links.reset();
}

struct PathCase {
  std::string name;
  std::function<Surroundings()> base;
  void (*change)(Surroundings&);
  std::string path;
  std::string why;

  friend std::ostream& operator<<(std::ostream& out, const PathCase& c) { return out << c.name; }
};

std::vector<PathCase> path_cases() {
  const auto two = [] { return gpu_job(2); };
  return {
      {"one_process", two, [](Surroundings&) {}, "copy engines", "over NVLink"},
      {"one_process_by_pcie", two,
       [](Surroundings& s) { s.links->topology = all_by(LinkKind::pcie, 2); }, "copy engines",
       "over PCIe"},
      {"one_process_without_peer_access", two,
       [](Surroundings& s) { s.links->topology = all_by(LinkKind::host, 2); }, "copy engines",
       "through the memory of the host, as the GPUs have no peer access"},
      {"one_process_with_some", [] { return gpu_job(4); },
       [](Surroundings& s) {
         set_links(s.links->topology, 0, 3, comm::nominal_link(LinkKind::pcie));
         set_links(s.links->topology, 1, 2, comm::nominal_link(LinkKind::host));
       },
       "copy engines",
       "over NVLink and PCIe, as all are of one process and have peer access; through the memory "
       "of "
       "the host where they have none"},
      {"processes", processes, [](Surroundings&) {}, "CUDA IPC",
       "on one host, see each other's GPUs, and these have peer access; tried when they start, and "
       "NCCL if that fails"},
      {"processes_without_nccl", processes,
       [](Surroundings& s) { s.cuda.nccl_failure = "no libnccl.so.2"; }, "CUDA IPC",
       "there is no NCCL to take its place"},
      {"ipc_asked_for", processes,
       [](Surroundings& s) { s.job.communicator = GpuCommunicator::ipc; }, "CUDA IPC",
       "as --communicator asks"},
      {"nccl_asked_for", processes,
       [](Surroundings& s) { s.job.communicator = GpuCommunicator::nccl; }, "NCCL",
       "as --communicator asks"},
      {"processes_that_are_shown_one_gpu_each", processes, show_one, "NCCL",
       "rank 0 does not see the GPU of rank 1: let every process see all GPUs"},
      {"processes_without_peer_access", processes,
       [](Surroundings& s) { s.links->topology = all_by(LinkKind::host, 4); }, "NCCL",
       "the GPUs of ranks 0 and 1 have no peer access"},
      {"processes_of_two_hosts", processes, [](Surroundings& s) { s.launch.processes = 8; }, "NCCL",
       "no CUDA IPC, as the processes are on different hosts"},
      {"one_process_on_each_host", processes,
       [](Surroundings& s) {
         s.launch = {.processes = 2, .on_host = 1, .launcher = "Open MPI"};
         show_one(s);
       },
       "NCCL", "different hosts"},
      {"list_that_is_longer_than_the_processes", processes,
       [](Surroundings& s) {
         s.job.gpus = {3, 1, 0};
         s.launch.processes = s.launch.on_host = 2;
         s.links = {{3, 1}, all_by(LinkKind::nvlink, 2), std::nullopt};
       },
       "CUDA IPC", "on one host"},
  };
}

class DoctorPath : public ::testing::TestWithParam<PathCase> {};

TEST_P(DoctorPath, OfGpus_IsSaidWithTheReason) {
  Surroundings s = GetParam().base();
  GetParam().change(s);
  const auto path = path_between_gpus(s);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->name, GetParam().path);
  EXPECT_THAT(path->why, HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(All, DoctorPath, ::testing::ValuesIn(path_cases()), testing::CaseName());

TEST(DoctorPath, WhereThereIsNothingBetween_IsNotSaid) {
  EXPECT_FALSE(path_between_gpus(healthy()));
  EXPECT_FALSE(path_between_gpus(healthy_with_gpus()));  // a job on the CPU
  Surroundings s = gpu_job(2);
  s.job.gpus = {1};
  EXPECT_FALSE(path_between_gpus(s));
  s.job = {.cuda = true, .mpi = true};
  s.launch = {.processes = 1};
  EXPECT_FALSE(path_between_gpus(s));
}

std::vector<Case> link_cases() {
  return {
      {"no_ipc_and_no_nccl",
       processes,
       [](Surroundings& s) {
         show_one(s);
         s.cuda.nccl_failure = "NCCL could not be loaded: no libnccl.so.2";
       },
       "gpus-not-connected",
       Severity::error,
       {"no libnccl.so.2 (no CUDA IPC, as rank 0 does not see", "--devices 0,1"}},
      {"nccl_asked_for_and_missing",
       processes,
       [](Surroundings& s) {
         s.job.communicator = GpuCommunicator::nccl;
         s.cuda.nccl_failure = "NCCL could not be loaded";
       },
       "gpus-not-connected",
       Severity::error,
       {"NCCL could not be loaded (as --communicator asks)"}},
      {"ipc_asked_for_and_not_possible",
       processes,
       [](Surroundings& s) {
         s.job.communicator = GpuCommunicator::ipc;
         s.launch.processes = 8;
       },
       "gpus-not-connected",
       Severity::error,
       {"CUDA IPC is not to be had: the processes are on different hosts"}},
      {"list_that_is_shorter_than_the_processes",
       processes,
       [](Surroundings& s) { s.job.gpus = {0, 1, 2}; },
       "gpu-missing",
       Severity::error,
       {"3 GPUs listed, and this host has 4 processes"}},
      {"one_gpu_for_all_processes",
       processes,
       [](Surroundings& s) {
         show_one(s);
         s.driver.gpus = 1;
       },
       "gpu-missing",
       Severity::error,
       {"4 processes of the mesh and one GPU"}},
      // The driver takes all links for equal, and two of them are slow.
      {"ring_over_slow_links",
       [] { return gpu_job(4); },
       [](Surroundings& s) {
         s.links->measured = all_by(LinkKind::nvlink, 4);
         set_links(*s.links->measured, 1, 2, {LinkKind::nvlink, 50.0});
         set_links(*s.links->measured, 3, 0, {LinkKind::nvlink, 50.0});
       },
       "ring-order",
       Severity::note,
       {"has 50 GB/s, that of a ring of GPUs 0,1,3,2 would have 200", "nominal bandwidths",
        "--devices 0,1,3,2 makes it"}},
      // Two islands, and what lies between them is other than the driver says.
      {"ring_that_no_list_changes",
       [] { return gpu_job(4); },
       [](Surroundings& s) {
         s.links->topology = all_by(LinkKind::pcie, 4);
         set_links(s.links->topology, 0, 1, comm::nominal_link(LinkKind::nvlink));
         set_links(s.links->topology, 2, 3, comm::nominal_link(LinkKind::nvlink));
         s.links->measured = s.links->topology;
         set_links(*s.links->measured, 0, 1, {LinkKind::nvlink, 5.0});
       },
       "ring-order",
       Severity::note,
       {"has 5 GB/s", "cannot be set"}},
  };
}

class DoctorOfLinks : public ::testing::TestWithParam<Case> {};

TEST_P(DoctorOfLinks, OneThingIsWrong_ExactlyThatIsFound) { expect_finding(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, DoctorOfLinks, ::testing::ValuesIn(link_cases()),
                         testing::CaseName());

/// Two islands of NVLink, GPUs 0 and 2 on one, 1 and 3 on the other.
Surroundings two_islands() {
  Surroundings s = gpu_job(4);
  s.links->topology = all_by(LinkKind::pcie, 4);
  set_links(s.links->topology, 0, 2, comm::nominal_link(LinkKind::nvlink));
  set_links(s.links->topology, 1, 3, comm::nominal_link(LinkKind::nvlink));
  return s;
}

TEST(DoctorRing, OfTwoIslands_IsThatOfTheMesh) {
  const Surroundings s = two_islands();
  EXPECT_EQ(s.links->ring(), (std::vector<int>{0, 1, 3, 2}));
  EXPECT_THAT(text_of(diagnosis_of(s)), HasSubstr("ring      GPUs 0, 1, 3, 2, chosen by nominal"));
}

/// Rates that are measured are shown; the ring stays the one that a mesh takes.
TEST(DoctorRing, RatesThatSayOtherwise_DoNotChangeIt) {
  Surroundings s = two_islands();
  s.links->measured = all_by(LinkKind::pcie, 4);  // by these rates it would be 0, 1, 2, 3
  const std::string text = text_of(diagnosis_of(s));
  EXPECT_THAT(text, HasSubstr("GPU 0 to  GPU 1 PCIe 25 GB/s, GPU 2 PCIe 25 GB/s"));
  EXPECT_THAT(text, HasSubstr("ring      GPUs 0, 1, 3, 2"));
  const auto document = nlohmann::json::parse(json_of(diagnosis_of(s)));
  EXPECT_EQ(document["links"]["ring"], (std::vector<int>{0, 1, 3, 2}));
  EXPECT_EQ(document["links"]["links"][1]["nominal_gbytes_per_s"], 200.0);
  EXPECT_EQ(document["links"]["links"][1]["measured_gbytes_per_s"], 25.0);
}

/// As H200s with NVSwitch are measured: equal links differ by a few percent.
TEST(DoctorRing, RatesThatDifferByLittle_AreNoFinding) {
  Surroundings s = gpu_job(4);
  s.links->measured = all_by(LinkKind::nvlink, 4);
  set_links(*s.links->measured, 1, 2, {LinkKind::nvlink, 190.0});
  EXPECT_TRUE(judge(s).empty());
}

TEST(DoctorRing, OfNccl_IsItsOwn) {
  Surroundings s = processes();
  s.job.communicator = GpuCommunicator::nccl;
  EXPECT_THAT(text_of(diagnosis_of(s)), HasSubstr("between   GPUs by NCCL: as --communicator"));
  EXPECT_THAT(text_of(diagnosis_of(s)), Not(HasSubstr("ring ")));
  const auto document = nlohmann::json::parse(json_of(diagnosis_of(s)));
  EXPECT_EQ(document["backend"]["between_gpus"], "NCCL");
  EXPECT_EQ(document["links"]["ring"], nullptr);
}

TEST(DoctorRing, OfAJobOnTheCpu_IsThatOfAllGpus) {
  EXPECT_THAT(text_of(diagnosis_of(healthy_with_gpus())),
              HasSubstr("ring      GPUs 0, 1 if all compute, chosen by"));
  const auto document = nlohmann::json::parse(json_of(diagnosis_of(healthy_with_gpus())));
  EXPECT_EQ(document["backend"]["between_gpus"], nullptr);
  EXPECT_EQ(document["links"]["ring"], (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace shardsolve::cli::doctor
