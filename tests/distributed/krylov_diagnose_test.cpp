// What diagnose() says of matrices whose answer is known.

#include "matgen/sparse_matrices.hpp"
#include "support/beam_system.hpp"
#include "support/krylov_sparse.hpp"
#include "support/thrown.hpp"

#include <shardsolve/diagnose.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Definiteness;
using krylov::Diagnosis;
using krylov::Method;
using krylov::Status;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;

/// On two ranks; on three the words are the same.
template <Scalar T>
Diagnosis diagnosis_of(const CsrMatrix<T>& a, const krylov::DiagnoseOptions& options = {}) {
  const Diagnosis diagnosis = krylov::diagnose(sparse_mesh_of(2), a, options);
  EXPECT_EQ(to_text(krylov::diagnose(sparse_mesh_of(3), a, options)), to_text(diagnosis));
  return diagnosis;
}

TEST(KrylovDiagnose, Beam_WantsBlocks) {
  const Diagnosis diagnosis = krylov::diagnose(
      sparse_mesh_of(2), beam_system("linear-undamped", beam::Elimination::rows_and_columns).a);
  EXPECT_EQ(diagnosis.rows, 1275);
  EXPECT_TRUE(diagnosis.is_hermitian);
  EXPECT_EQ(diagnosis.definiteness, Definiteness::positive);
  EXPECT_EQ(diagnosis.method, Method::cg);
  EXPECT_EQ(diagnosis.figures->identity_rows.count, 0);
  // 5.8e6 by a direct method.
  EXPECT_GT(diagnosis.condition, 3e6);
  EXPECT_LT(diagnosis.condition, 8e6);
  EXPECT_GT(diagnosis.gain, 20.0);
  EXPECT_THAT(diagnosis.answer,
              AllOf(HasSubstr("should I look for a better preconditioner? yes: block_jacobi with 4 "
                              "blocks, about"),
                    HasSubstr("x fewer iterations"), HasSubstr("with jacobi")))
      << to_text(diagnosis);
}

TEST(KrylovDiagnose, PowersOfTwo_ChangeNothingButSizes) {
  const CsrMatrix<double> a = csr_of(laplacian<double>(60, 2.01));
  const Diagnosis usual = diagnosis_of(a);
  for (const int exponent : {-1000, 500, 1000}) {
    CsrMatrix<double> scaled = a;
    for (double& value : scaled.values) {
      value = std::ldexp(value, exponent);
    }
    const Diagnosis diagnosis = diagnosis_of(scaled);
    EXPECT_EQ(diagnosis.definiteness, Definiteness::positive) << exponent;
    EXPECT_EQ(diagnosis.method, Method::cg) << exponent;
    EXPECT_EQ(diagnosis.largest_eigenvalue, std::ldexp(usual.largest_eigenvalue, exponent));
    EXPECT_NEAR(diagnosis.condition, usual.condition, 1e-6 * usual.condition) << exponent;
    EXPECT_EQ(diagnosis.best, usual.best) << exponent;
  }
}

TEST(KrylovDiagnose, RowsOfTheIdentityWithColumnsLeft_AreWhatMakesItAsymmetric) {
  System<double> system = laplacian<double>(150, 2.01);
  for (const std::size_t row : {0, 70, 140}) {
    for (std::size_t j = 0; j < 150; ++j) {
      system.a[row * 150 + j] = row == j ? 1.0 : 0.0;
    }
  }
  const Diagnosis diagnosis = diagnosis_of(csr_of(system));
  EXPECT_EQ(diagnosis.figures->identity_rows.count, 3);
  EXPECT_EQ(diagnosis.figures->identity_rows.first, 0);
  EXPECT_GT(diagnosis.figures->asymmetry, 1e-3);
  EXPECT_LT(diagnosis.figures->asymmetry_without_identity_rows, 1e-14);
  EXPECT_GT(diagnosis.figures->unmatched_entries, 0);
  EXPECT_TRUE(diagnosis.is_hermitian);
  EXPECT_EQ(diagnosis.method, Method::cg);
  EXPECT_THAT(diagnosis.findings, Contains(AllOf(HasSubstr("only by its 3 rows of the identity"),
                                                 HasSubstr("eliminate their columns too"))));
}

TEST(KrylovDiagnose, Poisson_HasTheEigenvaluesOfTheBook) {
  for (const std::int64_t edge : {6, 12}) {
    const Diagnosis diagnosis = diagnosis_of(matgen::laplacian_3d<double>(edge));
    const double cosine = std::cos(std::numbers::pi / static_cast<double>(edge + 1));
    EXPECT_NEAR(diagnosis.least_eigenvalue, 6 - 6 * cosine, 0.02 * (6 - 6 * cosine));
    EXPECT_NEAR(diagnosis.largest_eigenvalue, 6 + 6 * cosine, 0.01 * 12);
    EXPECT_NEAR(diagnosis.condition, (1 + cosine) / (1 - cosine),
                0.03 * (1 + cosine) / (1 - cosine));
    EXPECT_EQ(diagnosis.definiteness, Definiteness::positive);
    const krylov::Trial& plain = diagnosis.trials.front();
    EXPECT_EQ(plain.name, "jacobi");
    EXPECT_TRUE(plain.is_converged());
    // Jacobi of a constant diagonal is none.
    EXPECT_NEAR(plain.condition, diagnosis.condition, 0.05 * diagnosis.condition);
    EXPECT_GE(plain.predicted_iterations, plain.iterations);
    EXPECT_EQ(diagnosis.figures->asymmetry, 0.0);
    EXPECT_EQ(diagnosis.figures->bandwidth, edge * edge);
  }
}

TEST(KrylovDiagnose, EasySystem_NeedsNoBetterOne) {
  CsrMatrix<double> a = matgen::laplacian_3d<double>(6);
  for (double& value : a.values) {
    value = value == 6.0 ? 20.0 : value;
  }
  const Diagnosis diagnosis = diagnosis_of(a);
  EXPECT_THAT(diagnosis.answer, HasSubstr("preconditioner? no: cg with jacobi needs"));
}

TEST(KrylovDiagnose, IndefiniteMatrix_IsForMinres) {
  const Diagnosis diagnosis = diagnosis_of(csr_of(laplacian<double>(90, 0.63)));
  EXPECT_TRUE(diagnosis.is_hermitian);
  EXPECT_EQ(diagnosis.definiteness, Definiteness::indefinite);
  EXPECT_LT(diagnosis.least_eigenvalue, -1.0);
  EXPECT_EQ(diagnosis.method, Method::minres);
  EXPECT_THAT(diagnosis.findings, Contains(HasSubstr("minres")));
}

TEST(KrylovDiagnose, ComplexHermitianMatrix_IsPositiveDefinite) {
  const Diagnosis diagnosis = diagnosis_of(csr_of(laplacian<std::complex<double>>(90, 2.1)));
  EXPECT_TRUE(diagnosis.is_hermitian);
  EXPECT_EQ(diagnosis.definiteness, Definiteness::positive);
  EXPECT_EQ(diagnosis.figures->asymmetry, 0.0);
}

TEST(KrylovDiagnose, AsymmetricMatrix_IsForBicgstab) {
  const Diagnosis diagnosis = diagnosis_of(matgen::convection_diffusion_2d<double>(14, 0.4, -0.3));
  EXPECT_FALSE(diagnosis.is_hermitian);
  EXPECT_EQ(diagnosis.method, Method::bicgstab);
  EXPECT_EQ(diagnosis.figures->unmatched_entries, 0);
  EXPECT_GT(diagnosis.figures->asymmetry, 0.1);
  EXPECT_EQ(diagnosis.definiteness, Definiteness::unknown);
  EXPECT_GE(diagnosis.best, 0);
  EXPECT_THAT(diagnosis.findings, Contains(HasSubstr("not Hermitian")));
}

TEST(KrylovDiagnose, BrokenMatrices_AreNamedWithTheirRow) {
  CsrMatrix<double> a = csr_of(laplacian<double>(40));
  a.values[static_cast<std::size_t>(a.row_pointers[17])] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(diagnosis_of(a).answer,
              AllOf(HasSubstr("not before A is mended"), HasSubstr("(17, 16)")));

  System<double> system = laplacian<double>(40);
  for (std::size_t j = 0; j < 40; ++j) {
    system.a[5 * 40 + j] = 0.0;
  }
  const Diagnosis empty = diagnosis_of(csr_of(system));
  EXPECT_EQ(empty.figures->empty_rows.count, 1);
  EXPECT_EQ(empty.figures->empty_rows.first, 5);
  EXPECT_TRUE(empty.trials.empty());
  EXPECT_THAT(empty.answer, HasSubstr("row 5 is empty"));

  System<double> hole = laplacian<double>(40);
  hole.a[7 * 41] = 0.0;
  const Diagnosis without = diagnosis_of(csr_of(hole));
  EXPECT_EQ(without.figures->zero_diagonal.first, 7);
  EXPECT_EQ(without.trials.front().name, "no preconditioner");
  EXPECT_THAT(diagnosis_of(CsrMatrix<double>{}).answer, HasSubstr("nothing to solve"));
}

TEST(KrylovDiagnose, ZeroDiagonal_IsForOneBlock) {
  CooMatrix<double> shifted{40, 40, {}, {}, {}};
  for (std::int64_t i = 0; i < 40; ++i) {
    shifted.row_indices.push_back(i);
    shifted.column_indices.push_back((i + 3) % 40);
    shifted.values.push_back(static_cast<double>(i + 1));
  }
  const Diagnosis diagnosis = diagnosis_of(sorted(shifted));
  ASSERT_GE(diagnosis.best, 0);
  const krylov::Trial& best = diagnosis.trials[static_cast<std::size_t>(diagnosis.best)];
  EXPECT_EQ(best.name, "block_jacobi with 1 block");
  EXPECT_EQ(best.blocks, (std::vector<std::int64_t>{0, 40}));
  EXPECT_EQ(best.iterations, 1);
  EXPECT_EQ(diagnosis.method, Method::fgmres);
  EXPECT_THAT(diagnosis.findings, Contains(HasSubstr("exact factors of blocks (block_jacobi)")));
  EXPECT_THAT(diagnosis.answer,
              AllOf(HasSubstr("yes: block_jacobi with 1 block"), HasSubstr("method fgmres")));
}

TEST(KrylovDiagnose, IncompleteFactors_MayBeLeftOut) {
  const Diagnosis diagnosis =
      diagnosis_of(matgen::laplacian_3d<double>(6), {.incomplete_factors = false});
  EXPECT_THAT(to_text(diagnosis), ::testing::Not(HasSubstr("incomplete")));
}

TEST(KrylovDiagnose, Scaling_IsSeen) {
  System<double> system = laplacian<double>(40, 2.5);
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 40; ++j) {
      system.a[i * 40 + j] *= (i < 20 ? 1e5 : 1.0) * (j < 20 ? 1e5 : 1.0);
    }
  }
  const Diagnosis diagnosis = diagnosis_of(csr_of(system));
  EXPECT_NEAR(diagnosis.figures->largest_diagonal / diagnosis.figures->least_diagonal, 1e10, 1.0);
  EXPECT_THAT(diagnosis.findings, Contains(HasSubstr("badly scaled")));
}

TEST(KrylovDiagnose, Operator_IsJudgedByItsProducts) {
  const auto judge = [](const System<double>& system, const Operator<double>* m = nullptr) {
    Mesh mesh = Mesh::host(2);
    return krylov::diagnose(mesh, operator_of(system), row_slabs(system.n, 2), m);
  };
  const System<double> definite = laplacian<double>(150, 2.01);
  const Operator<double> m = Operator<double>::block_jacobi({0, 75, 150}, csr_of(definite));
  const Diagnosis diagnosis = judge(definite, &m);
  EXPECT_EQ(diagnosis.definiteness, Definiteness::positive);
  EXPECT_FALSE(diagnosis.figures.has_value());
  EXPECT_NEAR(diagnosis.condition, 4.01 / 0.0104, 0.1 * 4.01 / 0.0104);
  EXPECT_EQ(diagnosis.best, 1);
  EXPECT_THAT(diagnosis.answer, HasSubstr("yes: the preconditioner that was given"));
  EXPECT_EQ(judge(laplacian<double>(90, 0.63)).definiteness, Definiteness::indefinite);
  EXPECT_EQ(judge(laplacian<double>(90, 0.63)).method, Method::minres);
  System<double> negative = definite;
  for (double& entry : negative.a) {
    entry = -entry;
  }
  EXPECT_EQ(judge(negative).definiteness, Definiteness::negative);
  EXPECT_FALSE(judge(convection<double>(90)).is_hermitian);
  EXPECT_EQ(judge(convection<double>(90)).method, Method::bicgstab);
}

TEST(KrylovDiagnose, OperatorThatIsNone_IsNamed) {
  const auto judge = [](krylov::RowsOfProduct<double> rows) {
    return krylov::diagnose(cpu_rank(), Operator<double>::callable(std::move(rows)),
                            row_slabs(50, 1));
  };
  const Diagnosis affine = judge([](const double* x, GlobalRange rows, double* y) {
    std::transform(x, x + rows.size(), y, [](double entry) { return 2.0 * entry + 1.0; });
  });
  EXPECT_GT(affine.products->nonlinearity, 0.1);
  EXPECT_TRUE(affine.products->is_repeatable);
  EXPECT_THAT(affine.answer, AllOf(HasSubstr("not before A is mended"), HasSubstr("not linear")));

  const auto calls = std::make_shared<int>(0);
  const Diagnosis unsteady = judge([calls](const double* x, GlobalRange rows, double* y) {
    const double noise = 1.0 + (++*calls % 2) * 0x1p-52;
    std::transform(x, x + rows.size(), y, [=](double entry) { return 2.0 * entry * noise; });
  });
  EXPECT_FALSE(unsteady.products->is_repeatable);
  EXPECT_TRUE(unsteady.is_hermitian);
  EXPECT_THAT(unsteady.findings, Contains(HasSubstr("other bits the second time")));

  const Diagnosis broken = judge([](const double*, GlobalRange rows, double* y) {
    std::fill_n(y, rows.size(), std::numeric_limits<double>::quiet_NaN());
  });
  EXPECT_FALSE(broken.products->is_finite);
  EXPECT_THAT(broken.answer, HasSubstr("NaN"));
}

TEST(KrylovDiagnoseMisuse, WhatMakesNoSense_IsRefused) {
  const CsrMatrix<double> wide{1, 2, {0, 1}, {0}, {1.0}};
  Mesh& mesh = sparse_mesh_of(2);
  expect_error([&] { krylov::diagnose(mesh, wide); }, ErrorKind::invalid_argument,
               {"diagnose", "1 x 2"});
  const CsrMatrix<double> a = csr_of(laplacian<double>(9));
  expect_error([&] { krylov::diagnose(mesh, a, {.rtol = 0.0}); }, ErrorKind::invalid_argument,
               {"rtol = 0"});
  expect_error([&] { krylov::diagnose(mesh, a, {.trial_iterations = 0}); },
               ErrorKind::invalid_argument, {"trial_iterations = 0"});
}

TEST(KrylovBlocksOf, Cuts_AreWhereFewEntriesJoin) {
  // Three chains of 20, 30 and 50 rows, joined by one entry each.
  CooMatrix<double> coo{100, 100, {}, {}, {}};
  const auto add = [&](std::int64_t i, std::int64_t j) {
    coo.row_indices.push_back(i);
    coo.column_indices.push_back(j);
    coo.values.push_back(1.0);
  };
  for (std::int64_t i = 0; i < 100; ++i) {
    for (std::int64_t j = std::max<std::int64_t>(i - 3, 0); j <= i; ++j) {
      const bool same = (i < 30) == (j < 30) && (i < 70) == (j < 70);
      if (same) {
        add(i, j);
        add(j, i);
      }
    }
  }
  add(30, 29);
  add(70, 69);
  const CsrMatrix<double> a = sorted(coo);
  EXPECT_EQ(krylov::blocks_of(a, 3), (std::vector<std::int64_t>{0, 30, 70, 100}));
  EXPECT_EQ(krylov::blocks_of(a, 1), (std::vector<std::int64_t>{0, 100}));
  EXPECT_EQ(krylov::blocks_of(a, 100).size(), 101U);
  expect_error([&] { krylov::blocks_of(a, 101); }, ErrorKind::invalid_argument,
               {"101 blocks", "1 to 100"});
  // The beam is cut between cross sections of 75 rows.
  for (const std::int64_t cut : krylov::blocks_of(
           beam_system("linear-undamped", beam::Elimination::rows_and_columns).a, 4)) {
    EXPECT_EQ(cut % 75, 0);
  }
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
