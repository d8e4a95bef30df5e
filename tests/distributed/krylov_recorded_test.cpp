// Operators that are no matrices: their products recorded, captured, and given again.

#include "io/npy.hpp"
#include "krylov_files/capture_index.hpp"
#include "support/dtypes.hpp"
#include "support/files.hpp"
#include "support/krylov_sparse.hpp"
#include "support/process_meshes.hpp"
#include "support/thrown.hpp"

#include <shardsolve/krylov.hpp>
#include <shardsolve/krylov_files.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace recorded {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::ProductRecorder;
using krylov::RecordedProducts;
using krylov::Request;
using krylov::Status;

Mesh& mesh_of(std::int64_t ranks) {
  static std::map<std::int64_t, Mesh> meshes;
  const auto found = meshes.find(ranks);
  return found != meshes.end() ? found->second
                               : meshes.emplace(ranks, Mesh::host(ranks)).first->second;
}

/// Even cuts, and one with an empty slab and rows cut within a leaf.
std::vector<SlabLayout> few_cuts(std::int64_t n) {
  return {SlabLayout::even(n, 1, 1), SlabLayout::even(n, 3, 1), SlabLayout({0, 0, n / 3, n}, 1),
          SlabLayout({0, n / 2 + 1, n / 2 + 3, n, n}, 1)};
}

template <class T>
class KrylovRecorded : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovRecorded, Dtypes, DtypeNames);

TYPED_TEST(KrylovRecorded, SolveOfRecordedProducts_HasTheBitsOfTheSolveOnAnyCut) {
  using T = TypeParam;
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    const System<T> system = method == Method::cg || method == Method::minres
                                 ? laplacian<T>(90, 2.01)
                                 : convection<T>(90);
    const Operator<T> a = operator_of(system);
    const Operator<T> m = jacobi_of(system);
    const Options options{.method = method,
                          .rtol = 1e5 * unit_roundoff<T>,
                          .max_iterations = 25,
                          .restart = 7,
                          .log = true};
    const SlabLayout cut({0, 31, 31, 90}, 1);
    const Answer<T> plain = solve_on(mesh_of(3), cut, system, a, &m, options);
    const ProductRecorder<T> of_a;
    const ProductRecorder<T> of_m;
    const Operator<T> recorded_m = of_m.record(m);
    const Answer<T> seen = solve_on(mesh_of(3), cut, system, of_a.record(a), &recorded_m, options);
    EXPECT_TRUE(same_bits(seen, plain)) << "recording changes nothing";
    const RecordedProducts<T> products_a = of_a.products(mesh_of(3));
    const RecordedProducts<T> products_m = of_m.products(mesh_of(3));
    EXPECT_EQ(products_a.count(), plain.result.matvecs);
    EXPECT_EQ(products_a.x.size(), products_a.y.size());
    for (const SlabLayout& layout : few_cuts(system.n)) {
      const Operator<T> replayed_m = krylov::replay_products(products_m);
      EXPECT_TRUE(same_bits(solve_on(mesh_of(layout.ranks()), layout, system,
                                     krylov::replay_products(products_a), &replayed_m, options),
                            plain))
          << name(method) << " on " << layout.ranks();
    }
  }
}

TEST(KrylovRecordedProducts, OfSolveAuto_ServeAllItsAttempts) {
  const System<double> system = laplacian<double>(90, 1.3);  // indefinite
  const SlabLayout layout = SlabLayout::even(90, 2, 1);
  const auto solve = [&](const Operator<double>& a) {
    const RightHandSides<double> b(layout, 1);
    const RightHandSides<double> x(layout, 1);
    for (std::int64_t r = 0; r < 2; ++r) {
      std::copy_n(system.b.begin() + layout.segment(r).begin.value(), layout.width(r),
                  b.block(r).data());
    }
    return krylov::solve_auto(mesh_of(2), a, b, x, {.rtol = 1e-9, .log = true});
  };
  const ProductRecorder<double> recorder;
  const krylov::Result seen = solve(recorder.record(operator_of(system)));
  ASSERT_EQ(seen.attempts.size(), 2U) << seen.message;
  const krylov::Result again = solve(krylov::replay_products(recorder.products(mesh_of(2))));
  EXPECT_EQ(again.log, seen.log);
  EXPECT_EQ(again.message, seen.message);
  EXPECT_EQ(seen.log.front().attempt, 1);
  EXPECT_EQ(seen.log.back().attempt, 2);
}

TEST(KrylovRecordedProducts, NanInTheSeventeenthIteration_IsReplayedToTheBitFromItsFolder) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool in_preconditioner : {false, true}) {
    SCOPED_TRACE(in_preconditioner);
    const System<double> system = laplacian<double>(120);
    const System<double> ones = diagonal_system<double>("ones", std::vector<double>(120, 1.0));
    const Operator<double> a =
        in_preconditioner ? operator_of(system) : disturbed(system, 2, 2 + 1 + 17, nan);
    const Operator<double> m =
        in_preconditioner ? disturbed(ones, 2, 2 + 1 + 17, nan) : operator_of(ones);
    Request request{.options = {.method = Method::cg, .rtol = 1e-12, .log = true}, .ranks = 2};
    const SlabLayout layout = SlabLayout::even(120, 2, 1);
    const ProductRecorder<double> of_a;
    const ProductRecorder<double> of_m;
    const Operator<double> recorded_m = of_m.record(m);
    const Answer<double> seen =
        solve_on(mesh_of(2), layout, system, of_a.record(a), &recorded_m, request.options);
    EXPECT_EQ(seen.result.status,
              in_preconditioner ? Status::nonfinite_preconditioner : Status::nonfinite_operator);

    const TemporaryDirectory directory;
    const std::string folder = directory / "folder";
    krylov::capture(folder, request, of_a.products(mesh_of(2)), of_m.products(mesh_of(2)), system.b,
                    {}, seen.result);
    const auto index = krylov::files::read_capture_index(folder);
    EXPECT_EQ(index.request.preconditioner.kind, krylov::Recipe::Kind::recorded);
    EXPECT_TRUE(index.is_of_products());
    const auto read = [&](const krylov::files::ProductNames& names) {
      const auto vectors = [&](const char* name) {
        const io::NpyReader reader(folder + "/" + name);
        const std::int64_t count = reader.header().shape.at(0);
        std::vector<double> numbers(static_cast<std::size_t>(count * 120));
        for (std::int64_t k = 0; k < count; ++k) {
          reader.read_rows<double>({GlobalIndex(k), GlobalIndex(k + 1)},
                                   MatrixView<double>(numbers.data() + k * 120, 1, 120));
        }
        return numbers;
      };
      return RecordedProducts<double>{120, vectors(names.x), vectors(names.y)};
    };
    const Operator<double> replayed_m =
        krylov::replay_products(read(krylov::files::preconditioner_products));
    const Answer<double> again =
        solve_on(mesh_of(3), SlabLayout::even(120, 3, 1), system,
                 krylov::replay_products(read(krylov::files::operator_products)), &replayed_m,
                 request.options);
    EXPECT_TRUE(same_bits(again, seen));
  }
}

TEST(KrylovRecordedProducts, InProcesses_AreWholeInEach) {
  const System<double> system = laplacian<double>(60);
  const SlabLayout layout({0, 20, 20, 60}, 1);
  ProcessMeshes processes(3);
  std::vector<RecordedProducts<double>> found(3);
  const RightHandSides<double> b(layout, 1);
  const RightHandSides<double> x(layout, 1);
  for (std::int64_t r = 0; r < 3; ++r) {
    std::copy_n(system.b.begin() + layout.segment(r).begin.value(), layout.width(r),
                b.block(r).data());
  }
  const auto errors = processes.together([&](Mesh& own, std::int64_t rank) {
    const ProductRecorder<double> recorder;
    krylov::solve(own, recorder.record(operator_of(system)), b, x, {.max_iterations = 5});
    found[static_cast<std::size_t>(rank)] = recorder.products(own);
  });
  const ProductRecorder<double> recorder;
  solve_on(mesh_of(1), SlabLayout::even(60, 1, 1), system, recorder.record(operator_of(system)),
           nullptr, {.max_iterations = 5});
  const RecordedProducts<double> expected = recorder.products(mesh_of(1));
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    EXPECT_FALSE(errors[rank].has_value()) << errors[rank]->what();
    EXPECT_EQ(found[rank].x, expected.x);
    EXPECT_EQ(found[rank].y, expected.y);
  }
}

TEST(KrylovRecordedMisuse, AnotherSolve_IsRefusedWithWhatToDo) {
  const System<double> system = laplacian<double>(60);
  const SlabLayout layout = SlabLayout::even(60, 2, 1);
  const ProductRecorder<double> recorder;
  const auto solve = [&](const System<double>& of, const Operator<double>& a,
                         const Options& options) {
    return solve_on(mesh_of(2), layout, of, a, nullptr, options);
  };
  solve(system, recorder.record(operator_of(system)), {.max_iterations = 5});
  const RecordedProducts<double> products = recorder.products(mesh_of(2));
  const auto again = [&] { return krylov::replay_products(products); };
  expect_error([&] { solve(system, again(), {.max_iterations = 6}); }, ErrorKind::invalid_argument,
               {"product 9 was asked for with another vector", "takes another way", "same method"});
  const Operator<double> used = again();
  solve(system, used, {.max_iterations = 5});
  expect_error([&] { solve(system, used, {.max_iterations = 5}); }, ErrorKind::invalid_argument,
               {"product 11 was asked for, and 10 were recorded"});
  expect_error([&] { solve(system, again(), {.method = Method::bicgstab}); },
               ErrorKind::invalid_argument, {"product 1", "another vector"});
  System<double> other = system;
  other.b[40] += 1.0;
  expect_error([&] { solve(other, again(), {.max_iterations = 5}); }, ErrorKind::invalid_argument,
               {"another vector"});
  expect_error(
      [&] {
        solve_on(mesh_of(2), SlabLayout::even(50, 2, 1), laplacian<double>(50), again(), nullptr,
                 {});
      },
      ErrorKind::invalid_argument, {"60 rows were recorded", "b has 50"});
  expect_error([&] { krylov::replay_products<double>({60, {1.0}, {1.0}}); },
               ErrorKind::invalid_argument, {"1 numbers x"});
}

TEST(KrylovRecordedMisuse, MoreThanIsAllowed_LeavesTheOutcomeAndIsRefused) {
  const System<double> system = laplacian<double>(60);
  const SlabLayout layout = SlabLayout::even(60, 2, 1);
  const ProductRecorder<double> recorder(5000);
  const Answer<double> answer =
      solve_on(mesh_of(2), layout, system, recorder.record(operator_of(system)), nullptr,
               {.max_iterations = 5});
  EXPECT_EQ(answer.result.status, Status::max_iterations);
  expect_error([&] { recorder.products(mesh_of(2)); }, ErrorKind::invalid_argument,
               {"10 products of the solve take 9600 bytes, and 5000 are allowed"});
  expect_error(
      [&] {
        solve_on(mesh_of(3), SlabLayout::even(60, 3, 1), system,
                 recorder.record(operator_of(system)), nullptr, {});
      },
      ErrorKind::invalid_argument, {"take a new one for each solve"});
}

TEST(KrylovRecordedMisuse, FoldersThatCannotBe_AreRefusedAndLeaveNothing) {
  const TemporaryDirectory directory;
  const RecordedProducts<double> products{3, {1, 2, 3}, {4, 5, 6}};
  const krylov::Result result;
  const auto refused = [&](const Request& request, const RecordedProducts<double>& a,
                           const RecordedProducts<double>& m, const std::vector<double>& b,
                           const krylov::CaptureOptions& options,
                           const std::vector<std::string>& words) {
    expect_error([&] { krylov::capture(directory / "f", request, a, m, b, {}, result, options); },
                 ErrorKind::invalid_argument, words);
  };
  Request with_jacobi;
  with_jacobi.preconditioner.kind = krylov::Recipe::Kind::jacobi;
  Request recorded_m;
  recorded_m.preconditioner.kind = krylov::Recipe::Kind::recorded;
  refused(with_jacobi, products, {}, {1, 2, 3}, {}, {"jacobi", "record the preconditioner"});
  refused(recorded_m, products, {}, {1, 2, 3}, {}, {"without its products"});
  refused({}, products, {}, {1, 2}, {}, {"products with A of 3 rows", "b of 2 rows"});
  refused({}, products, {3, {1, 2, 3}, {}}, {1, 2, 3}, {}, {"products with M", "0 numbers y"});
  refused({}, products, {}, {1, 2, 3}, {.max_bytes = 70}, {"bytes, and 70 are allowed"});
  EXPECT_TRUE(directory.names().empty());
  krylov::capture(directory / "f", {}, products, {}, {1, 2, 3}, {}, result);
  EXPECT_TRUE(std::filesystem::exists(directory / "f/A_y.npy"));
}

}  // namespace
}  // namespace recorded
}  // namespace shardsolve::testing::krylov_problems
