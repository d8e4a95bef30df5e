// A queue whose work turns out to have failed only when it is waited for, as on GPUs.

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/host/host_queue.hpp"
#include "tests/support/rank_program.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

/// What its devices do, and have done.
struct FailurePlan {
  std::int64_t failing_rank = 0;
  std::string failing_queue;
  std::atomic<int> synchronized{0};
};

class FailingQueue final : public runtime::Queue {
 public:
  FailingQueue(const std::string& name, runtime::Pulse& pulse, std::int64_t rank, FailurePlan& plan)
      : inner_(name, pulse), rank_(rank), plan_(plan) {}

  void record(runtime::Event& event) override { inner_.record(event); }
  void wait(runtime::Event& event, const runtime::WaitSite& site) override {
    inner_.wait(event, site);
  }
  void synchronize() override {
    inner_.synchronize();
    ++plan_.synchronized;
    if (rank_ == plan_.failing_rank && name() == plan_.failing_queue) {
      throw Error(ErrorKind::device, "planted");
    }
  }
  void store(std::int64_t* target, std::int64_t value, std::int64_t count) override {
    inner_.store(target, value, count);
  }
  void clear(void* target, std::size_t bytes) override { inner_.clear(target, bytes); }
  void copy(void* target, const void* source, std::size_t bytes) override {
    inner_.copy(target, source, bytes);
  }
  void set_step(std::int64_t step) override { inner_.set_step(step); }
  const std::string& name() const override { return inner_.name(); }
  void begin_call(bool tracing) override { inner_.begin_call(tracing); }
  std::vector<TraceSpan> take_spans() override { return inner_.take_spans(); }
  double flops() const override { return inner_.flops(); }

 private:
  runtime::host::HostQueue inner_;
  std::int64_t rank_;
  FailurePlan& plan_;
};

class FailingDevice final : public runtime::Device {
 public:
  FailingDevice(runtime::Pulse& pulse, std::int64_t rank, FailurePlan& plan)
      : inner_(pulse), pulse_(pulse), rank_(rank), plan_(plan) {}

  std::unique_ptr<runtime::Queue> make_queue(const std::string& name,
                                             runtime::Priority /*priority*/) override {
    return std::make_unique<FailingQueue>(name, pulse_, rank_, plan_);
  }
  std::unique_ptr<runtime::Event> make_event() override { return inner_.make_event(); }
  runtime::Buffer allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  runtime::Buffer allocate_host(std::size_t bytes) override { return inner_.allocate_host(bytes); }
  void adopt_thread() override {}
  void require_device_memory(const void*, Memory, const char*) const override {}
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    return inner_.find_kernels(set, dtype);
  }

 private:
  runtime::host::HostDevice inner_;
  runtime::Pulse& pulse_;
  std::int64_t rank_;
  FailurePlan& plan_;
};

class FailingBackend final : public mesh::CpuBackend {
 public:
  FailingBackend(std::int64_t ranks, FailurePlan& plan) : inner_(ranks), plan_(plan) {}

  std::int64_t ranks() const override { return inner_.ranks(); }
  std::unique_ptr<runtime::Device> make_device(std::int64_t rank, runtime::Pulse& pulse) override {
    return std::make_unique<FailingDevice>(pulse, rank, plan_);
  }
  std::unique_ptr<comm::Communicator> make_communicator(const comm::Pulses& pulses,
                                                        std::int64_t rank) override {
    return inner_.make_communicator(pulses, rank);
  }
  std::int64_t available_memory() const override { return inner_.available_memory(); }

 private:
  mesh::HostBackend inner_;
  FailurePlan& plan_;
};

TEST(FailingQueue, FoundWhenACallEnds_IsItsFailureAndNoCrash) {
  constexpr std::int64_t ranks = 3;
  constexpr int queues = 4;
  FailurePlan plan;
  Mesh mesh(mesh::MeshState::start(std::make_unique<FailingBackend>(ranks, plan)));
  for (const char* queue : {"panel", "update", "transfer", "rest"}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      plan.failing_rank = rank;
      plan.failing_queue = queue;
      plan.synchronized = 0;
      const auto error = testing::thrown_by([&] { testing::run_on(mesh, [](mesh::Rank&) {}); });
      ASSERT_TRUE(error) << queue;
      EXPECT_EQ(error->kind(), ErrorKind::device);
      EXPECT_STREQ(error->what(), "planted");
      EXPECT_EQ(plan.synchronized, ranks * queues);  // nothing is left running
    }
  }
  plan.failing_queue.clear();
  testing::run_on(mesh, [](mesh::Rank&) {});
}

}  // namespace
}  // namespace shardsolve
