#include "tests/support/lapack.hpp"

#include "core/each_dtype.hpp"
#include "reference/wide.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <stdexcept>
#include <utility>

// Fortran symbols: every argument by address, then one hidden length for each character argument.
#define SHARDSOLVE_DECLARE_LAPACK(T, potrf, potrs, potri)                                     \
  void potrf(const char*, const int*, T*, const int*, int*, std::size_t);                     \
  void potrs(const char*, const int*, const int*, const T*, const int*, T*, const int*, int*, \
             std::size_t);                                                                    \
  void potri(const char*, const int*, T*, const int*, int*, std::size_t);
#define SHARDSOLVE_DECLARE_LU(T, getrf, getrs, getri)                                   \
  void getrf(const int*, const int*, T*, const int*, int*, int*);                       \
  void getrs(const char*, const int*, const int*, const T*, const int*, const int*, T*, \
             const int*, int*, std::size_t);                                            \
  void getri(const int*, T*, const int*, const int*, T*, const int*, int*);
#define SHARDSOLVE_DECLARE_QR(T, geqrf, orgqr)                                  \
  void geqrf(const int*, const int*, T*, const int*, T*, T*, const int*, int*); \
  void orgqr(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);
#define SHARDSOLVE_DECLARE_GELSD(T, gelsd)                                                     \
  void gelsd(const int*, const int*, const int*, T*, const int*, T*, const int*, T*, const T*, \
             int*, T*, const int*, int*, int*);
#define SHARDSOLVE_DECLARE_COMPLEX_GELSD(T, gelsd)                                               \
  void gelsd(const int*, const int*, const int*, std::complex<T>*, const int*, std::complex<T>*, \
             const int*, T*, const T*, int*, std::complex<T>*, const int*, T*, int*, int*);
#define SHARDSOLVE_DECLARE_SYEV(T, syev)                                                    \
  void syev(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*, \
            std::size_t, std::size_t);
#define SHARDSOLVE_DECLARE_HEEV(T, heev)                                            \
  void heev(const char*, const char*, const int*, std::complex<T>*, const int*, T*, \
            std::complex<T>*, const int*, T*, int*, std::size_t, std::size_t);
// Divide and conquer; the generalised problem has B after A and, in front, its type.
#define SHARDSOLVE_DECLARE_SYEVD(T, syevd, sygvd)                                                  \
  void syevd(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*,       \
             const int*, int*, std::size_t, std::size_t);                                          \
  void sygvd(const int*, const char*, const char*, const int*, T*, const int*, T*, const int*, T*, \
             T*, const int*, int*, const int*, int*, std::size_t, std::size_t);
#define SHARDSOLVE_DECLARE_HEEVD(T, heevd, hegvd)                                                  \
  void heevd(const char*, const char*, const int*, std::complex<T>*, const int*, T*,               \
             std::complex<T>*, const int*, T*, const int*, int*, const int*, int*, std::size_t,    \
             std::size_t);                                                                         \
  void hegvd(const int*, const char*, const char*, const int*, std::complex<T>*, const int*,       \
             std::complex<T>*, const int*, T*, std::complex<T>*, const int*, T*, const int*, int*, \
             const int*, int*, std::size_t, std::size_t);

extern "C" {
SHARDSOLVE_DECLARE_LAPACK(float, spotrf_, spotrs_, spotri_)
SHARDSOLVE_DECLARE_LAPACK(double, dpotrf_, dpotrs_, dpotri_)
SHARDSOLVE_DECLARE_LAPACK(std::complex<float>, cpotrf_, cpotrs_, cpotri_)
SHARDSOLVE_DECLARE_LAPACK(std::complex<double>, zpotrf_, zpotrs_, zpotri_)
SHARDSOLVE_DECLARE_LU(float, sgetrf_, sgetrs_, sgetri_)
SHARDSOLVE_DECLARE_LU(double, dgetrf_, dgetrs_, dgetri_)
SHARDSOLVE_DECLARE_LU(std::complex<float>, cgetrf_, cgetrs_, cgetri_)
SHARDSOLVE_DECLARE_LU(std::complex<double>, zgetrf_, zgetrs_, zgetri_)
SHARDSOLVE_DECLARE_QR(float, sgeqrf_, sorgqr_)
SHARDSOLVE_DECLARE_QR(double, dgeqrf_, dorgqr_)
SHARDSOLVE_DECLARE_QR(std::complex<float>, cgeqrf_, cungqr_)
SHARDSOLVE_DECLARE_QR(std::complex<double>, zgeqrf_, zungqr_)
SHARDSOLVE_DECLARE_GELSD(float, sgelsd_)
SHARDSOLVE_DECLARE_GELSD(double, dgelsd_)
SHARDSOLVE_DECLARE_COMPLEX_GELSD(float, cgelsd_)
SHARDSOLVE_DECLARE_COMPLEX_GELSD(double, zgelsd_)
SHARDSOLVE_DECLARE_SYEV(float, ssyev_)
SHARDSOLVE_DECLARE_SYEV(double, dsyev_)
SHARDSOLVE_DECLARE_HEEV(float, cheev_)
SHARDSOLVE_DECLARE_HEEV(double, zheev_)
SHARDSOLVE_DECLARE_SYEVD(float, ssyevd_, ssygvd_)
SHARDSOLVE_DECLARE_SYEVD(double, dsyevd_, dsygvd_)
SHARDSOLVE_DECLARE_HEEVD(float, cheevd_, chegvd_)
SHARDSOLVE_DECLARE_HEEVD(double, zheevd_, zhegvd_)
}

namespace shardsolve::testing {
namespace {

template <Scalar T>
struct Symbols;
template <>
struct Symbols<float> {
  static constexpr auto potrf = spotrf_;
  static constexpr auto potrs = spotrs_;
  static constexpr auto potri = spotri_;
  static constexpr auto getrf = sgetrf_;
  static constexpr auto getrs = sgetrs_;
  static constexpr auto getri = sgetri_;
  static constexpr auto geqrf = sgeqrf_;
  static constexpr auto orgqr = sorgqr_;
  static constexpr auto gelsd = sgelsd_;
  static constexpr auto eigenvalues = ssyev_;
  static constexpr auto eigh = ssyevd_;
  static constexpr auto generalised_eigh = ssygvd_;
};
template <>
struct Symbols<double> {
  static constexpr auto potrf = dpotrf_;
  static constexpr auto potrs = dpotrs_;
  static constexpr auto potri = dpotri_;
  static constexpr auto getrf = dgetrf_;
  static constexpr auto getrs = dgetrs_;
  static constexpr auto getri = dgetri_;
  static constexpr auto geqrf = dgeqrf_;
  static constexpr auto orgqr = dorgqr_;
  static constexpr auto gelsd = dgelsd_;
  static constexpr auto eigenvalues = dsyev_;
  static constexpr auto eigh = dsyevd_;
  static constexpr auto generalised_eigh = dsygvd_;
};
template <>
struct Symbols<std::complex<float>> {
  static constexpr auto potrf = cpotrf_;
  static constexpr auto potrs = cpotrs_;
  static constexpr auto potri = cpotri_;
  static constexpr auto getrf = cgetrf_;
  static constexpr auto getrs = cgetrs_;
  static constexpr auto getri = cgetri_;
  static constexpr auto geqrf = cgeqrf_;
  static constexpr auto orgqr = cungqr_;
  static constexpr auto gelsd = cgelsd_;
  static constexpr auto eigenvalues = cheev_;
  static constexpr auto eigh = cheevd_;
  static constexpr auto generalised_eigh = chegvd_;
};
template <>
struct Symbols<std::complex<double>> {
  static constexpr auto potrf = zpotrf_;
  static constexpr auto potrs = zpotrs_;
  static constexpr auto potri = zpotri_;
  static constexpr auto getrf = zgetrf_;
  static constexpr auto getrs = zgetrs_;
  static constexpr auto getri = zgetri_;
  static constexpr auto geqrf = zgeqrf_;
  static constexpr auto orgqr = zungqr_;
  static constexpr auto gelsd = zgelsd_;
  static constexpr auto eigenvalues = zheev_;
  static constexpr auto eigh = zheevd_;
  static constexpr auto generalised_eigh = zhegvd_;
};

constexpr char lower = 'L';

/// LAPACK's leading dimension is at least 1.
template <Scalar T>
int leading_dimension(const DenseMatrix<T>& a) {
  return static_cast<int>(std::max<std::int64_t>(1, a.rows()));
}

/// What syevd, heevd, sygvd and hegvd ask for, where the vectors are wanted.
template <Scalar T>
struct EighWorkspace {
  explicit EighWorkspace(int n)
      : work_size(1 + (is_complex<T> ? 2 * n + n * n : 6 * n + 2 * n * n)),
        real_size(1 + 5 * n + 2 * n * n),
        int_size(3 + 5 * n),
        work(static_cast<std::size_t>(work_size)),
        real_work(static_cast<std::size_t>(real_size)),
        int_work(static_cast<std::size_t>(int_size)) {}

  int work_size;
  int real_size;
  int int_size;
  std::vector<T> work;
  std::vector<RealOf<T>> real_work;
  std::vector<int> int_work;
};

/// Complex routines take real workspace too, real ones do not.
template <Scalar T, class Call>
int call_with_real_work(Call call, EighWorkspace<T>& space) {
  if constexpr (is_complex<T>) {
    return call(space.real_work.data(), &space.real_size);
  } else {
    return call();
  }
}

}  // namespace

template <Scalar T>
LapackResult<T> lapack_factor(const DenseMatrix<T>& a) {
  DenseMatrix<T> l = a;
  const int n = static_cast<int>(a.rows());
  const int stride = leading_dimension(a);
  int info = 0;
  Symbols<T>::potrf(&lower, &n, l.data(), &stride, &info, 1);
  for (std::int64_t j = 1; j < l.columns(); ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      l(i, j) = T{};
    }
  }
  return {std::move(l), info};
}

template <Scalar T>
LapackResult<T> lapack_solve(const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
  LapackResult<T> factor = lapack_factor(a);
  if (!factor.ok()) {
    return factor;
  }
  DenseMatrix<T> x = b;
  const int n = static_cast<int>(a.rows());
  const int right_hand_sides = static_cast<int>(b.columns());
  const int stride = leading_dimension(a);
  int info = 0;
  Symbols<T>::potrs(&lower, &n, &right_hand_sides, factor.matrix.data(), &stride, x.data(), &stride,
                    &info, 1);
  return {std::move(x), info};
}

template <Scalar T>
LapackResult<T> lapack_inverse(const DenseMatrix<T>& a) {
  LapackResult<T> result = lapack_factor(a);
  if (!result.ok()) {
    return result;
  }
  DenseMatrix<T>& x = result.matrix;
  const int n = static_cast<int>(a.rows());
  const int stride = leading_dimension(a);
  int info = 0;
  Symbols<T>::potri(&lower, &n, x.data(), &stride, &info, 1);
  result.info = info;
  for (std::int64_t j = 1; j < x.columns(); ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      x(i, j) = reference::conjugate(x(j, i));
    }
  }
  return result;
}

template <Scalar T>
std::vector<RealOf<T>> lapack_eigenvalues(const DenseMatrix<T>& a) {
  using Real = RealOf<T>;
  DenseMatrix<T> overwritten = a;
  const char values_only = 'N';
  const int n = static_cast<int>(a.rows());
  const int stride = leading_dimension(a);
  const int work_size = 3 * n + 1;
  std::vector<Real> eigenvalues(static_cast<std::size_t>(n));
  std::vector<T> work(static_cast<std::size_t>(work_size));
  int info = 0;
  if constexpr (is_complex<T>) {
    std::vector<Real> real_work(static_cast<std::size_t>(work_size));
    Symbols<T>::eigenvalues(&values_only, &lower, &n, overwritten.data(), &stride,
                            eigenvalues.data(), work.data(), &work_size, real_work.data(), &info, 1,
                            1);
  } else {
    Symbols<T>::eigenvalues(&values_only, &lower, &n, overwritten.data(), &stride,
                            eigenvalues.data(), work.data(), &work_size, &info, 1, 1);
  }
  if (info != 0) {
    throw std::runtime_error("LAPACK's syev or heev did not converge");
  }
  return eigenvalues;
}

template <Scalar T>
Eigenpairs<T> lapack_eigh(const DenseMatrix<T>& a) {
  const char with_vectors = 'V';
  const int n = static_cast<int>(a.rows());
  const int stride = leading_dimension(a);
  Eigenpairs<T> pairs{std::vector<RealOf<T>>(static_cast<std::size_t>(n)), a};
  EighWorkspace<T> space(n);
  const auto call = [&](auto... real_work) {
    int info = 0;
    Symbols<T>::eigh(&with_vectors, &lower, &n, pairs.vectors.data(), &stride, pairs.values.data(),
                     space.work.data(), &space.work_size, real_work..., space.int_work.data(),
                     &space.int_size, &info, 1, 1);
    return info;
  };
  if (call_with_real_work<T>(call, space) != 0) {
    throw std::runtime_error("LAPACK's syevd or heevd did not converge");
  }
  return pairs;
}

template <Scalar T>
Eigenpairs<T> lapack_generalised_eigh(const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
  const int a_z_is_b_z_w = 1;
  const char with_vectors = 'V';
  const int n = static_cast<int>(a.rows());
  const int stride = leading_dimension(a);
  Eigenpairs<T> pairs{std::vector<RealOf<T>>(static_cast<std::size_t>(n)), a};
  DenseMatrix<T> overwritten = b;
  EighWorkspace<T> space(n);
  const auto call = [&](auto... real_work) {
    int info = 0;
    Symbols<T>::generalised_eigh(&a_z_is_b_z_w, &with_vectors, &lower, &n, pairs.vectors.data(),
                                 &stride, overwritten.data(), &stride, pairs.values.data(),
                                 space.work.data(), &space.work_size, real_work...,
                                 space.int_work.data(), &space.int_size, &info, 1, 1);
    return info;
  };
  if (call_with_real_work<T>(call, space) != 0) {
    throw std::runtime_error("LAPACK's sygvd or hegvd failed: B has to be positive definite");
  }
  return pairs;
}

template <Scalar T>
LapackLu<T> lapack_lu(const DenseMatrix<T>& a) {
  LapackLu<T> factor{a, std::vector<int>(static_cast<std::size_t>(a.rows())), 0};
  const int n = static_cast<int>(a.rows());
  const int stride = leading_dimension(a);
  int info = 0;
  Symbols<T>::getrf(&n, &n, factor.lu.data(), &stride, factor.swaps.data(), &info);
  factor.info = info;
  return factor;
}

template <Scalar T>
DenseMatrix<T> lapack_lu_solve(const LapackLu<T>& factor, reference::Op op,
                               const DenseMatrix<T>& b) {
  const char trans = op == reference::Op::none ? 'N' : op == reference::Op::transpose ? 'T' : 'C';
  DenseMatrix<T> x = b;
  const int n = static_cast<int>(b.rows());
  const int right_hand_sides = static_cast<int>(b.columns());
  const int stride = leading_dimension(b);
  int info = 0;
  Symbols<T>::getrs(&trans, &n, &right_hand_sides, factor.lu.data(), &stride, factor.swaps.data(),
                    x.data(), &stride, &info, 1);
  return x;
}

template <Scalar T>
DenseMatrix<T> lapack_lu_inverse(const LapackLu<T>& factor) {
  DenseMatrix<T> x = factor.lu;
  const int n = static_cast<int>(x.rows());
  const int stride = leading_dimension(x);
  const int room = 64 * std::max(n, 1);
  std::vector<T> work(static_cast<std::size_t>(room));
  int info = 0;
  Symbols<T>::getri(&n, x.data(), &stride, factor.swaps.data(), work.data(), &room, &info);
  return x;
}

template <Scalar T>
LapackQr<T> lapack_qr(const DenseMatrix<T>& a) {
  LapackQr<T> found{a, DenseMatrix<T>(a.columns(), a.columns())};
  const int m = static_cast<int>(a.rows());
  const int n = static_cast<int>(a.columns());
  const int stride = leading_dimension(a);
  const int room = 64 * std::max(n, 1);
  int info = 0;
  std::vector<T> tau(static_cast<std::size_t>(n));
  std::vector<T> work(static_cast<std::size_t>(room));
  Symbols<T>::geqrf(&m, &n, found.q.data(), &stride, tau.data(), work.data(), &room, &info);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      found.r(i, j) = found.q(i, j);
    }
  }
  Symbols<T>::orgqr(&m, &n, &n, found.q.data(), &stride, tau.data(), work.data(), &room, &info);
  return found;
}

template <Scalar T>
LapackLeastSquares<T> lapack_least_squares(const DenseMatrix<T>& a, const DenseMatrix<T>& b,
                                           double rcond) {
  const int m = static_cast<int>(a.rows());
  const int n = static_cast<int>(a.columns());
  const int k = static_cast<int>(b.columns());
  const int rows = std::max({m, n, 1});
  DenseMatrix<T> used = a;
  DenseMatrix<T> both(rows, k);
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      both(i, j) = b(i, j);
    }
  }
  const auto size = static_cast<std::size_t>(rows);
  std::vector<RealOf<T>> s(size);
  std::vector<RealOf<T>> reals(100 * size * size + 10000);
  std::vector<int> ints(100 * size + 1000);
  const int room = static_cast<int>(100 * size * size + 10000);
  std::vector<T> work(static_cast<std::size_t>(room));
  const auto limit = static_cast<RealOf<T>>(rcond);
  int rank = 0;
  int info = 0;
  const int stride = leading_dimension(a);
  if constexpr (is_complex<T>) {
    Symbols<T>::gelsd(&m, &n, &k, used.data(), &stride, both.data(), &rows, s.data(), &limit, &rank,
                      work.data(), &room, reals.data(), ints.data(), &info);
  } else {
    Symbols<T>::gelsd(&m, &n, &k, used.data(), &stride, both.data(), &rows, s.data(), &limit, &rank,
                      work.data(), &room, ints.data(), &info);
  }
  s.resize(static_cast<std::size_t>(std::min(m, n)));
  LapackLeastSquares<T> found{DenseMatrix<T>(n, k), rank, std::move(s)};
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      found.x(i, j) = both(i, j);
    }
  }
  return found;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                         \
  template LapackQr<T> lapack_qr<T>(const DenseMatrix<T>&);                               \
  template LapackLeastSquares<T> lapack_least_squares<T>(const DenseMatrix<T>&,           \
                                                         const DenseMatrix<T>&, double);  \
  template LapackResult<T> lapack_factor<T>(const DenseMatrix<T>&);                       \
  template LapackResult<T> lapack_solve<T>(const DenseMatrix<T>&, const DenseMatrix<T>&); \
  template LapackResult<T> lapack_inverse<T>(const DenseMatrix<T>&);                      \
  template LapackLu<T> lapack_lu<T>(const DenseMatrix<T>&);                               \
  template DenseMatrix<T> lapack_lu_solve<T>(const LapackLu<T>&, reference::Op,           \
                                             const DenseMatrix<T>&);                      \
  template DenseMatrix<T> lapack_lu_inverse<T>(const LapackLu<T>&);                       \
  template std::vector<RealOf<T>> lapack_eigenvalues<T>(const DenseMatrix<T>&);           \
  template Eigenpairs<T> lapack_eigh<T>(const DenseMatrix<T>&);                           \
  template Eigenpairs<T> lapack_generalised_eigh<T>(const DenseMatrix<T>&, const DenseMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::testing
