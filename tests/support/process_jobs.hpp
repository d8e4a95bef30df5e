/// Jobs on a mesh of several processes, compared with one process.
#pragma once

#include "tests/support/jobs.hpp"
#include "tests/support/process_meshes.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::testing {

using Errors = std::vector<std::optional<Error>>;

/// Whether all processes have thrown, and the same.
inline ::testing::AssertionResult all_threw(const Errors& errors, const Error& expected) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank]) {
      return ::testing::AssertionFailure() << "nothing was thrown in process " << rank;
    }
    if (errors[rank]->kind() != expected.kind() ||
        std::string(errors[rank]->what()) != expected.what()) {
      return ::testing::AssertionFailure() << "in process " << rank << ": " << errors[rank]->what();
    }
  }
  return ::testing::AssertionSuccess();
}

/// Whether a job gives what it gives on a mesh of one process, and leaves no message behind.
inline ::testing::AssertionResult agrees(ProcessMeshes& on, const Job& job,
                                         const Answer& expected) {
  if (!on.in_good_order()) {
    return ::testing::AssertionFailure() << "an earlier call has left messages behind";
  }
  std::vector<Answer> answers(static_cast<std::size_t>(on.ranks()));
  const Errors errors = on.together([&](Mesh& mesh, std::int64_t rank) {
    answers[static_cast<std::size_t>(rank)] = job.run(mesh, {});
  });
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank]) {
      return ::testing::AssertionFailure() << "process " << rank << ": " << errors[rank]->what();
    }
    const auto same = same_bits(answers[rank], expected);
    if (!same) {
      return ::testing::AssertionFailure() << "process " << rank << ": " << same.message();
    }
  }
  if (!on.in_good_order()) {
    return ::testing::AssertionFailure() << "messages are left behind";
  }
  return ::testing::AssertionSuccess();
}

inline Answer in_one_process(const Job& job, std::int64_t ranks) {
  Mesh mesh = Mesh::host(ranks);
  return job.run(mesh, {});
}

}  // namespace shardsolve::testing
