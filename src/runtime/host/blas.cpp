#include "runtime/host/blas.hpp"

#include "runtime/host/thread_sanitizer.hpp"

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/resource.h>

#ifndef SHARDSOLVE_BLAS_PRIVATE
#include <dlfcn.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// Fortran symbols of any BLAS and LAPACK: every argument by address, then one hidden length for
// each character argument. Some builds put a prefix before every symbol.
#define SHARDSOLVE_BLAS_SYMBOL(name) __asm__(SHARDSOLVE_BLAS_PREFIX #name)
#define SHARDSOLVE_DECLARE_BLAS(T, R, gemm, gemv, herk, trsm, potrf)                              \
  void gemm(const char*, const char*, const int*, const int*, const int*, const T*, const T*,     \
            const int*, const T*, const int*, const T*, T*, const int*, std::size_t, std::size_t) \
      SHARDSOLVE_BLAS_SYMBOL(gemm);                                                               \
  void gemv(const char*, const int*, const int*, const T*, const T*, const int*, const T*,        \
            const int*, const T*, T*, const int*, std::size_t) SHARDSOLVE_BLAS_SYMBOL(gemv);      \
  void herk(const char*, const char*, const int*, const int*, const R*, const T*, const int*,     \
            const R*, T*, const int*, std::size_t, std::size_t) SHARDSOLVE_BLAS_SYMBOL(herk);     \
  void trsm(const char*, const char*, const char*, const char*, const int*, const int*, const T*, \
            const T*, const int*, T*, const int*, std::size_t, std::size_t, std::size_t,          \
            std::size_t) SHARDSOLVE_BLAS_SYMBOL(trsm);                                            \
  void potrf(const char*, const int*, T*, const int*, int*, std::size_t)                          \
      SHARDSOLVE_BLAS_SYMBOL(potrf);
#define SHARDSOLVE_DECLARE_REFLECTIONS(T, gerc, hemv, her2, geqrt, larfg, larft)                   \
  void gerc(const int*, const int*, const T*, const T*, const int*, const T*, const int*, T*,      \
            const int*) SHARDSOLVE_BLAS_SYMBOL(gerc);                                              \
  void hemv(const char*, const int*, const T*, const T*, const int*, const T*, const int*,         \
            const T*, T*, const int*, std::size_t) SHARDSOLVE_BLAS_SYMBOL(hemv);                   \
  void her2(const char*, const int*, const T*, const T*, const int*, const T*, const int*, T*,     \
            const int*, std::size_t) SHARDSOLVE_BLAS_SYMBOL(her2);                                 \
  void geqrt(const int*, const int*, const int*, T*, const int*, T*, const int*, T*, int*)         \
      SHARDSOLVE_BLAS_SYMBOL(geqrt);                                                               \
  void larfg(const int*, T*, T*, const int*, T*) SHARDSOLVE_BLAS_SYMBOL(larfg);                    \
  void larft(const char*, const char*, const int*, const int*, const T*, const int*, const T*, T*, \
             const int*, std::size_t, std::size_t) SHARDSOLVE_BLAS_SYMBOL(larft);
#define SHARDSOLVE_DECLARE_QR(T, geqrf, form_q)                                                   \
  void geqrf(const int*, const int*, T*, const int*, T*, T*, const int*, int*)                    \
      SHARDSOLVE_BLAS_SYMBOL(geqrf);                                                              \
  void form_q(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*) \
      SHARDSOLVE_BLAS_SYMBOL(form_q);
#define SHARDSOLVE_DECLARE_SVD(T, gesdd)                                                  \
  void gesdd(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*, \
             const int*, T*, const int*, int*, int*, std::size_t) SHARDSOLVE_BLAS_SYMBOL(gesdd);
#define SHARDSOLVE_DECLARE_COMPLEX_SVD(T, R, gesdd)                                       \
  void gesdd(const char*, const int*, const int*, T*, const int*, R*, T*, const int*, T*, \
             const int*, T*, const int*, R*, int*, int*, std::size_t)                     \
      SHARDSOLVE_BLAS_SYMBOL(gesdd);
#define SHARDSOLVE_DECLARE_STEQR(Real, steqr)                                                    \
  void steqr(const char*, const int*, Real*, Real*, Real*, const int*, Real*, int*, std::size_t) \
      SHARDSOLVE_BLAS_SYMBOL(steqr);

extern "C" {
SHARDSOLVE_DECLARE_BLAS(float, float, sgemm_, sgemv_, ssyrk_, strsm_, spotrf_)
SHARDSOLVE_DECLARE_BLAS(double, double, dgemm_, dgemv_, dsyrk_, dtrsm_, dpotrf_)
SHARDSOLVE_DECLARE_BLAS(std::complex<float>, float, cgemm_, cgemv_, cherk_, ctrsm_, cpotrf_)
SHARDSOLVE_DECLARE_BLAS(std::complex<double>, double, zgemm_, zgemv_, zherk_, ztrsm_, zpotrf_)
SHARDSOLVE_DECLARE_REFLECTIONS(float, sger_, ssymv_, ssyr2_, sgeqrt_, slarfg_, slarft_)
SHARDSOLVE_DECLARE_REFLECTIONS(double, dger_, dsymv_, dsyr2_, dgeqrt_, dlarfg_, dlarft_)
SHARDSOLVE_DECLARE_REFLECTIONS(std::complex<float>, cgerc_, chemv_, cher2_, cgeqrt_, clarfg_,
                               clarft_)
SHARDSOLVE_DECLARE_REFLECTIONS(std::complex<double>, zgerc_, zhemv_, zher2_, zgeqrt_, zlarfg_,
                               zlarft_)
SHARDSOLVE_DECLARE_QR(float, sgeqrf_, sorgqr_)
SHARDSOLVE_DECLARE_QR(double, dgeqrf_, dorgqr_)
SHARDSOLVE_DECLARE_QR(std::complex<float>, cgeqrf_, cungqr_)
SHARDSOLVE_DECLARE_QR(std::complex<double>, zgeqrf_, zungqr_)
SHARDSOLVE_DECLARE_SVD(float, sgesdd_)
SHARDSOLVE_DECLARE_SVD(double, dgesdd_)
SHARDSOLVE_DECLARE_COMPLEX_SVD(std::complex<float>, float, cgesdd_)
SHARDSOLVE_DECLARE_COMPLEX_SVD(std::complex<double>, double, zgesdd_)
SHARDSOLVE_DECLARE_STEQR(float, ssteqr_)
SHARDSOLVE_DECLARE_STEQR(double, dsteqr_)
void dbdsdc_(const char*, const char*, const int*, double*, double*, double*, const int*, double*,
             const int*, double*, int*, double*, int*, int*, std::size_t, std::size_t)
    SHARDSOLVE_BLAS_SYMBOL(dbdsdc_);
#ifdef SHARDSOLVE_BLAS_PRIVATE
void openblas_set_num_threads(int threads) SHARDSOLVE_BLAS_SYMBOL(openblas_set_num_threads);
int openblas_get_num_threads() SHARDSOLVE_BLAS_SYMBOL(openblas_get_num_threads);
char* openblas_get_config() SHARDSOLVE_BLAS_SYMBOL(openblas_get_config);
char* openblas_get_corename() SHARDSOLVE_BLAS_SYMBOL(openblas_get_corename);
#endif
#ifdef SHARDSOLVE_BLAS_SHUTDOWN
int blas_thread_shutdown_();
void* blas_memory_alloc(int);
void blas_memory_free(void*);
#endif
}

namespace shardsolve::runtime::host::blas {
namespace {

template <Scalar T>
struct Symbols;
template <>
struct Symbols<float> {
  static constexpr auto gemm = sgemm_;
  static constexpr auto gemv = sgemv_;
  static constexpr auto herk = ssyrk_;
  static constexpr auto trsm = strsm_;
  static constexpr auto potrf = spotrf_;
  static constexpr auto gerc = sger_;
  static constexpr auto hemv = ssymv_;
  static constexpr auto her2 = ssyr2_;
  static constexpr auto geqrt = sgeqrt_;
  static constexpr auto larfg = slarfg_;
  static constexpr auto larft = slarft_;
  static constexpr auto geqrf = sgeqrf_;
  static constexpr auto form_q = sorgqr_;
  static constexpr auto gesdd = sgesdd_;
  static constexpr auto steqr = ssteqr_;
};
template <>
struct Symbols<double> {
  static constexpr auto gemm = dgemm_;
  static constexpr auto gemv = dgemv_;
  static constexpr auto herk = dsyrk_;
  static constexpr auto trsm = dtrsm_;
  static constexpr auto potrf = dpotrf_;
  static constexpr auto gerc = dger_;
  static constexpr auto hemv = dsymv_;
  static constexpr auto her2 = dsyr2_;
  static constexpr auto geqrt = dgeqrt_;
  static constexpr auto larfg = dlarfg_;
  static constexpr auto larft = dlarft_;
  static constexpr auto geqrf = dgeqrf_;
  static constexpr auto form_q = dorgqr_;
  static constexpr auto gesdd = dgesdd_;
  static constexpr auto steqr = dsteqr_;
};
template <>
struct Symbols<std::complex<float>> {
  static constexpr auto gemm = cgemm_;
  static constexpr auto gemv = cgemv_;
  static constexpr auto herk = cherk_;
  static constexpr auto trsm = ctrsm_;
  static constexpr auto potrf = cpotrf_;
  static constexpr auto gerc = cgerc_;
  static constexpr auto hemv = chemv_;
  static constexpr auto her2 = cher2_;
  static constexpr auto geqrt = cgeqrt_;
  static constexpr auto larfg = clarfg_;
  static constexpr auto larft = clarft_;
  static constexpr auto geqrf = cgeqrf_;
  static constexpr auto form_q = cungqr_;
  static constexpr auto gesdd = cgesdd_;
};
template <>
struct Symbols<std::complex<double>> {
  static constexpr auto gemm = zgemm_;
  static constexpr auto gemv = zgemv_;
  static constexpr auto herk = zherk_;
  static constexpr auto trsm = ztrsm_;
  static constexpr auto potrf = zpotrf_;
  static constexpr auto gerc = zgerc_;
  static constexpr auto hemv = zhemv_;
  static constexpr auto her2 = zher2_;
  static constexpr auto geqrt = zgeqrt_;
  static constexpr auto larfg = zlarfg_;
  static constexpr auto larft = zlarft_;
  static constexpr auto geqrf = zgeqrf_;
  static constexpr auto form_q = zungqr_;
  static constexpr auto gesdd = zgesdd_;
};

#ifdef SHARDSOLVE_BLAS_PRIVATE
/// Of addresses, for a buffer of OpenBLAS, of which it needs one for each of `count` of `what`, and
/// for another one that somebody may take meanwhile. Throws Error(out_of_memory).
void require_addresses(int count, const char* what, const char* otherwise) {
  constexpr std::size_t size = std::size_t{128} << 20U;  // BUFFER_SIZE of x86-64 and 64-bit ARM
  void* const room =
      ::mmap(nullptr, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    throw Error(ErrorKind::out_of_memory,
                fmt::format("OpenBLAS needs {} MB of addresses for each of its {}, and the system "
                            "has none left for {} of them: raise the limit (ulimit -v) or {}",
                            size >> 20U, what, count, otherwise));
  }
  ::munmap(room, 2 * size);
}
#endif

#ifdef SHARDSOLVE_BLAS_SHUTDOWN
/// Until threads of the pool have a buffer each. Where there are no addresses for it a thread asks
/// for ever, and cannot be waited for.
void await_buffers_of_pool(int threads) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return;
  }
  const auto require = [threads] {
    require_addresses(threads, "threads", "set OPENBLAS_NUM_THREADS=1");
  };
  for (int i = 0; i < threads; ++i) {  // each that asks takes what there is in the meantime
    require();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  require();
}
#endif

/// During a call of the BLAS. It copies to a buffer of its own, which queues use one after the
/// other behind locks that ThreadSanitizer is not to see either; operands are announced
/// (operands.hpp).
class Call : UnseenMemory {
 public:
  /// OpenBLAS makes one more buffer when more calls than ever run at the same time. Where the
  /// system has no addresses for it OpenBLAS (0.3.21) asks again for ever, so that is found out
  /// before. Throws Error(out_of_memory).
  Call() {
#ifdef SHARDSOLVE_BLAS_PRIVATE
    const int now = ++running;
    if (now > provided_for) {
      try {
        make_buffers(now);
      } catch (...) {
        --running;
        throw;
      }
    }
#endif
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
#ifdef SHARDSOLVE_BLAS_PRIVATE
    --running;
#endif
  }

#ifdef SHARDSOLVE_BLAS_PRIVATE
 private:
  /// So many at the same time.
  static void make_buffers(int count) {
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    if (count <= provided_for) {
      return;
    }
    constexpr const char* calls = "calls that run at the same time";
    constexpr const char* otherwise = "use fewer devices";
#ifdef SHARDSOLVE_BLAS_SHUTDOWN
    std::vector<std::unique_ptr<void, void (*)(void*)>> buffers;
    buffers.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      require_addresses(count, calls, otherwise);
      buffers.emplace_back(blas_memory_alloc(0), blas_memory_free);
    }
#else
    require_addresses(count, calls, otherwise);  // OpenBLAS shows no way to make them
#endif
    provided_for = count;
  }

  static inline std::atomic<int> running = 0;
  static inline std::atomic<int> provided_for = 0;  // so many calls have a buffer each
#endif
};

/// Numbers of a call with readable memory on both sides: OpenBLAS (seen: 0.3.21, with the kernels
/// of every x86-64 CPU) reads up to 16 bytes behind x in products of complex matrices whose rows
/// are two more than a multiple of four, and behind y in those of Hermitian ones, which ends the
/// process where memory does. tests/unit/blas_edges_test.cpp.
template <Scalar T>
class Within {
 public:
  Within(const T* numbers, std::int64_t count) : Within(count) {
    std::copy_n(numbers, count, data());
  }
  explicit Within(std::int64_t count) : all_(static_cast<std::size_t>(count + 2 * room)) {}
  T* data() { return all_.data() + room; }

 private:
  static constexpr std::int64_t room = 8;
  std::vector<T> all_;
};

/// The BLAS of this build counts in 32 bits.
int checked(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("a tile operation of size {} exceeds the {} that the BLAS can count; use "
                    "more ranks or smaller tiles",
                    size, std::numeric_limits<int>::max()));
  }
  return static_cast<int>(size);
}

}  // namespace

void use_one_thread() {
#ifdef SHARDSOLVE_BLAS_PRIVATE
  static const bool done = [] {
#ifdef SHARDSOLVE_BLAS_SHUTDOWN
    await_buffers_of_pool(openblas_get_num_threads());
#endif
    openblas_set_num_threads(1);
#ifdef SHARDSOLVE_BLAS_SHUTDOWN
    blas_thread_shutdown_();  // the pool that OpenBLAS starts when it is loaded; else it sleeps
#endif
    return true;
  }();
  static_cast<void>(done);
#endif
}

Description describe() {
#ifdef SHARDSOLVE_BLAS_PRIVATE
  const char* const config = openblas_get_config();
  const char* const kernels = openblas_get_corename();
#else
  using Text = char*();
  auto* const config_of = reinterpret_cast<Text*>(::dlsym(RTLD_DEFAULT, "openblas_get_config"));
  auto* const kernels_of = reinterpret_cast<Text*>(::dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (config_of == nullptr || kernels_of == nullptr) {
    return {};
  }
  const char* const config = config_of();
  const char* const kernels = kernels_of();
#endif
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const std::string all = config;
  return {all.substr(0, all.find(' ', all.find(' ') + 1)), kernels};
}

template <Scalar T>
void Blas<T>::gemm(Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c) {
  const int m = checked(c.rows());
  const int n = checked(c.columns());
  const int k = checked(op_a == Op::none ? a.columns() : a.rows());
  const int lda = checked(a.stride());
  const int ldb = checked(b.stride());
  const int ldc = checked(c.stride());
  const char ta = static_cast<char>(op_a);
  const char tb = static_cast<char>(op_b);
  const Call call;
  Symbols<T>::gemm(&ta, &tb, &m, &n, &k, &alpha, a.data(), &lda, b.data(), &ldb, &beta, c.data(),
                   &ldc, 1, 1);
}

template <Scalar T>
void Blas<T>::gemv(Op op, T alpha, In a, const T* x, T beta, T* y) {
  const int m = checked(a.rows());
  const int n = checked(a.columns());
  const int lda = checked(a.stride());
  const int one = 1;
  const char trans = static_cast<char>(op);
  const Call call;
  const auto run = [&](const T* of) {
    Symbols<T>::gemv(&trans, &m, &n, &alpha, a.data(), &lda, of, &one, &beta, y, &one, 1);
  };
  if (is_complex<T> && op == Op::none) {
    run(Within<T>(x, n).data());
  } else {
    run(x);
  }
}

template <Scalar T>
void Blas<T>::herk(Triangle triangle, Op op, Real alpha, In a, Real beta, Out c) {
  const int n = checked(c.rows());
  const int k = checked(op == Op::none ? a.columns() : a.rows());
  const int lda = checked(a.stride());
  const int ldc = checked(c.stride());
  const char uplo = static_cast<char>(triangle);
  const char trans = static_cast<char>(op);
  const Call call;
  Symbols<T>::herk(&uplo, &trans, &n, &k, &alpha, a.data(), &lda, &beta, c.data(), &ldc, 1, 1);
}

template <Scalar T>
void Blas<T>::trsm(Side side, Triangle triangle, Op op, In a, Out b) {
  constexpr std::int64_t small = 32;
  if (side == Side::right && triangle == Triangle::lower && op != Op::none && a.rows() > small) {
    // The panel. In halves, most of it is gemm, which OpenBLAS does twice as fast as trsm:
    //   x1 = b1 l11^-H,  b2 -= x1 l21^H,  x2 = b2 l22^-H
    const std::int64_t half = a.rows() / 2;
    const std::int64_t rest = a.rows() - half;
    trsm(side, triangle, op, a.block(0, 0, half, half), b.columns_from(0, half));
    gemm(Op::none, op, T{-1}, b.columns_from(0, half), a.block(half, 0, rest, half), T{1},
         b.columns_from(half, rest));
    trsm(side, triangle, op, a.block(half, half, rest, rest), b.columns_from(half, rest));
    return;
  }
  const int m = checked(b.rows());
  const int n = checked(b.columns());
  const int lda = checked(a.stride());
  const int ldb = checked(b.stride());
  const char left_or_right = static_cast<char>(side);
  const char uplo = static_cast<char>(triangle);
  const char trans = static_cast<char>(op);
  const char diagonal = 'N';
  const T one{1};
  const Call call;
  Symbols<T>::trsm(&left_or_right, &uplo, &trans, &diagonal, &m, &n, &one, a.data(), &lda, b.data(),
                   &ldb, 1, 1, 1, 1);
}

template <Scalar T>
void Blas<T>::trsm_unit_lower(Op op, In a, Out b) {
  const int m = checked(b.rows());
  const int n = checked(b.columns());
  const int lda = checked(a.stride());
  const int ldb = checked(b.stride());
  const char side = static_cast<char>(Side::left);
  const char uplo = static_cast<char>(Triangle::lower);
  const char trans = static_cast<char>(op);
  const char diagonal = 'U';
  const T one{1};
  const Call call;
  Symbols<T>::trsm(&side, &uplo, &trans, &diagonal, &m, &n, &one, a.data(), &lda, b.data(), &ldb, 1,
                   1, 1, 1);
}

template <Scalar T>
std::int64_t Blas<T>::potrf(Triangle triangle, Out a) {
  const int n = checked(a.rows());
  const int lda = checked(a.stride());
  const char uplo = static_cast<char>(triangle);
  int info = 0;
  const Call call;
  Symbols<T>::potrf(&uplo, &n, a.data(), &lda, &info, 1);
  return info;
}

template <Scalar T>
void Blas<T>::gerc(T alpha, const T* x, const T* y, Out a) {
  const int m = checked(a.rows());
  const int n = checked(a.columns());
  const int lda = checked(a.stride());
  const int one = 1;
  const Call call;
  Symbols<T>::gerc(&m, &n, &alpha, x, &one, y, &one, a.data(), &lda);
}

template <Scalar T>
void Blas<T>::hemv(Triangle triangle, T alpha, In a, const T* x, T beta, T* y) {
  const int n = checked(a.rows());
  const int lda = checked(a.stride());
  const int one = 1;
  const char uplo = static_cast<char>(triangle);
  const Call call;
  Within<T> of(x, n);
  Within<T> sum(y, n);
  Symbols<T>::hemv(&uplo, &n, &alpha, a.data(), &lda, of.data(), &one, &beta, sum.data(), &one, 1);
  std::copy_n(sum.data(), n, y);
}

template <Scalar T>
void Blas<T>::her2(Triangle triangle, T alpha, const T* x, const T* y, Out a) {
  const int n = checked(a.rows());
  const int lda = checked(a.stride());
  const int one = 1;
  const char uplo = static_cast<char>(triangle);
  const Call call;
  Symbols<T>::her2(&uplo, &n, &alpha, x, &one, y, &one, a.data(), &lda, 1);
}

template <Scalar T>
void Blas<T>::geqrt(Out a, Out t, T* work) {
  const int m = checked(a.rows());
  const int n = checked(a.columns());
  const int block = checked(t.rows());
  const int lda = checked(a.stride());
  const int ldt = checked(t.stride());
  int info = 0;
  const Call call;
  Symbols<T>::geqrt(&m, &n, &block, a.data(), &lda, t.data(), &ldt, work, &info);
}

template <Scalar T>
T Blas<T>::larfg(std::int64_t n, T* x) {
  const int size = checked(n);
  const int one = 1;
  T tau{};
  const Call call;
  Symbols<T>::larfg(&size, x, x + 1, &one, &tau);
  return tau;
}

template <Scalar T>
void Blas<T>::larft(In v, const T* tau, Out t) {
  const int n = checked(v.rows());
  const int k = checked(v.columns());
  const int ldv = checked(v.stride());
  const int ldt = checked(t.stride());
  const char direction = 'F';
  const char stored = 'C';
  const Call call;
  Symbols<T>::larft(&direction, &stored, &n, &k, v.data(), &ldv, tau, t.data(), &ldt, 1, 1);
}

template <Scalar T>
void Blas<T>::geqrf(Out a, T* tau) {
  const int m = checked(a.rows());
  const int n = checked(a.columns());
  const int lda = checked(a.stride());
  int info = 0;
  T wanted{};
  const int ask = -1;
  const Call call;
  Symbols<T>::geqrf(&m, &n, a.data(), &lda, tau, &wanted, &ask, &info);
  const int room = std::max(1, static_cast<int>(std::real(wanted)));
  std::vector<T> work(static_cast<std::size_t>(room));
  Symbols<T>::geqrf(&m, &n, a.data(), &lda, tau, work.data(), &room, &info);
}

template <Scalar T>
void Blas<T>::form_q(Out a, const T* tau) {
  const int m = checked(a.rows());
  const int n = checked(a.columns());
  const int lda = checked(a.stride());
  int info = 0;
  T wanted{};
  const int ask = -1;
  const Call call;
  Symbols<T>::form_q(&m, &n, &n, a.data(), &lda, tau, &wanted, &ask, &info);
  const int room = std::max(1, static_cast<int>(std::real(wanted)));
  std::vector<T> work(static_cast<std::size_t>(room));
  Symbols<T>::form_q(&m, &n, &n, a.data(), &lda, tau, work.data(), &room, &info);
}

namespace {

template <Scalar T>
void copy(MatrixView<const T> source, MatrixView<T> target) {
  for (std::int64_t j = 0; j < source.columns(); ++j) {
    std::copy_n(source.columns_from(j, 1).data(), source.rows(), target.columns_from(j, 1).data());
  }
}

template <Scalar T>
std::int64_t run_gesdd(MatrixView<T> a, RealOf<T>* s, MatrixView<T> u, MatrixView<T> vh) {
  using Real = RealOf<T>;
  const int n = checked(a.rows());
  const int lda = checked(a.stride());
  const int ldu = std::max(1, checked(u.stride()));
  const int ldv = std::max(1, checked(vh.stride()));
  const char job = u.empty() ? 'N' : 'A';
  const auto size = static_cast<std::size_t>(n);
  std::vector<int> places(8 * std::max<std::size_t>(size, 1));
  // of complex numbers; what LAPACK 3.7 and later ask for
  std::vector<Real> reals(is_complex<T> ? std::max<std::size_t>(1, 5 * size * size + 7 * size) : 0);
  int info = 0;
  const Call call;
  const auto run = [&](T* work, int room) {
    if constexpr (is_complex<T>) {
      Symbols<T>::gesdd(&job, &n, &n, a.data(), &lda, s, u.data(), &ldu, vh.data(), &ldv, work,
                        &room, reals.data(), places.data(), &info, 1);
    } else {
      Symbols<T>::gesdd(&job, &n, &n, a.data(), &lda, s, u.data(), &ldu, vh.data(), &ldv, work,
                        &room, places.data(), &info, 1);
    }
  };
  T wanted{};
  run(&wanted, -1);
  const int room = std::max(1, static_cast<int>(std::real(wanted)));
  std::vector<T> work(static_cast<std::size_t>(room));
  run(work.data(), room);
  return info;
}

}  // namespace

template <Scalar T>
std::int64_t Blas<T>::gesdd(Out a, Real* s, Out u, Out vh) {
  if constexpr (is_complex<T>) {
    // Rows are vectors here, so what is read behind one lies a column behind it; see Within.
    const std::int64_t square = a.rows() * a.rows();
    std::vector<T> room(static_cast<std::size_t>((u.empty() ? 1 : 3) * square + a.rows() + 1));
    const auto part = [&](std::int64_t i) {
      return i > 0 && u.empty() ? u : Out(&room[i * square], a.rows(), a.rows());
    };
    copy<T>(a, part(0));
    const std::int64_t info = run_gesdd(part(0), s, part(1), part(2));
    copy<T>(part(1), u);
    copy<T>(part(2), vh);
    return info;
  }
  return run_gesdd(a, s, u, vh);
}

template <class Real>
std::int64_t steqr(Real* diagonal, Real* off_diagonal, MatrixView<Real> z) {
  const int n = checked(z.rows());
  const int stride = checked(z.stride());
  const char with_vectors = 'I';
  std::vector<Real> work(static_cast<std::size_t>(std::max(2 * n - 2, 1)));
  int info = 0;
  const Call call;
  Symbols<Real>::steqr(&with_vectors, &n, diagonal, off_diagonal, z.data(), &stride, work.data(),
                       &info, 1);
  return info;
}

std::int64_t bdsdc(std::int64_t n, double* diagonal, double* off_diagonal, MatrixView<double> u,
                   MatrixView<double> vt) {
  const bool with_vectors = !u.empty();
  const int order = checked(n);
  const int ldu = checked(u.stride());
  const int ldv = checked(vt.stride());
  const char upper = 'U';
  const char job = with_vectors ? 'I' : 'N';
  std::vector<double> work(static_cast<std::size_t>(with_vectors ? (3 * n + 4) * n : 4 * n) + 1);
  std::vector<int> places(static_cast<std::size_t>(8 * n) + 1);
  double unused = 0.0;
  int unused_place = 0;
  int info = 0;
  const Call call;
  dbdsdc_(&upper, &job, &order, diagonal, off_diagonal, u.data(), &ldu, vt.data(), &ldv, &unused,
          &unused_place, work.data(), places.data(), &info, 1, 1);
  return info;
}

template struct Blas<float>;
template struct Blas<double>;
template struct Blas<std::complex<float>>;
template struct Blas<std::complex<double>>;

template std::int64_t steqr(float*, float*, MatrixView<float>);
template std::int64_t steqr(double*, double*, MatrixView<double>);

}  // namespace shardsolve::runtime::host::blas
