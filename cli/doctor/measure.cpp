#include "measure.hpp"

#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"
#include "programs/gather.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/run_options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <complex>
#include <memory>

namespace shardsolve::cli::doctor {
namespace {

using runtime::Op;

/// Large enough for the rate of large operands, and to be over soon.
struct Sizes {
  std::int64_t gemm = 0;  ///< rows and columns
  std::int64_t copy = 0;  ///< numbers

  std::int64_t bytes() const {
    return static_cast<std::int64_t>(sizeof(double)) * (3 * gemm * gemm + 2 * copy);
  }
};

Sizes sizes_for(Memory memory) {
  constexpr std::int64_t mega = std::int64_t{1} << 20U;
  return memory == Memory::host ? Sizes{1024, 8 * mega} : Sizes{4096, 32 * mega};
}

/// Numbers between -1 and 1 that are not all alike: the power that a GPU takes, and with it its
/// rate, depends on them.
std::vector<double> numbers(std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::uint64_t state = 1;
  for (double& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth, MMIX
    value = static_cast<double>(static_cast<std::int64_t>(state)) / 9223372036854775808.0;
  }
  return values;
}

/// Median of the seconds that `enqueue` and its work take, all ranks beginning together.
template <class Enqueue>
double seconds_of(mesh::Rank& rank, runtime::Queue& queue, Enqueue enqueue) {
  std::array<double, 5> seconds{};
  enqueue();  // the first time costs more
  for (double& one : seconds) {
    queue.synchronize();
    programs::gather_from_all(rank, std::vector<char>(1));
    const auto begin = std::chrono::steady_clock::now();
    enqueue();
    queue.synchronize();
    one = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    rank.leave_if_failed();
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

template <Scalar T>
double gemm_rate(mesh::Rank& rank, std::int64_t n) {
  const std::vector<double> reals = numbers(n * n);
  const std::vector<T> values(reals.begin(), reals.end());
  const MatrixView<const T> a(rank.upload(rank.update(), values.data(), n * n), n, n);
  const MatrixView<const T> b(rank.upload(rank.update(), values.data(), n * n), n, n);
  const MatrixView<T> c = rank.workspace<T>(n, n);
  const double flops = (is_complex<T> ? 8.0 : 2.0) * static_cast<double>(n) *
                       static_cast<double>(n) * static_cast<double>(n);
  return flops / seconds_of(rank, rank.update(), [&] {
           rank.kernels<T>().gemm(rank.update(), Op::conjugate_transpose, Op::none, T{1}, a, b,
                                  T{0}, c);
         });
}

double copy_rate(mesh::Rank& rank, MatrixView<double> source, MatrixView<double> target) {
  const auto& kernels = rank.kernels<double>();
  kernels.fill(rank.update(), 1.0, source);
  const double bytes = 2.0 * sizeof(double) * static_cast<double>(source.rows() * source.columns());
  return bytes /
         seconds_of(rank, rank.update(), [&] { kernels.copy(rank.update(), source, target); });
}

double broadcast_rate(mesh::Rank& rank, MatrixView<double> data) {
  const comm::Bytes bytes{data.data(),
                          static_cast<std::size_t>(data.rows() * data.columns()) * sizeof(double)};
  return static_cast<double>(bytes.size) / seconds_of(rank, rank.transfer(), [&] {
           rank.communicator().broadcast(rank.transfer(), bytes, 0);
         });
}

void require_memory(const Mesh& mesh, const Sizes& sizes) {
  const std::int64_t available = mesh.available_memory();
  if (available < sizes.bytes()) {
    throw Error(ErrorKind::out_of_memory,
                fmt::format("--measure needs {} bytes on each of {} devices, {} are free: use "
                            "fewer devices, or leave it out",
                            sizes.bytes(), mesh.ranks(), available));
  }
}

}  // namespace

Rates measure(Mesh& mesh) {
  const Sizes sizes = sizes_for(mesh.memory());
  require_memory(mesh, sizes);
  const auto rates = std::make_shared<Rates>();
  rates->devices.resize(static_cast<std::size_t>(mesh.ranks()));
  mesh.state().run(RunOptions{}, [rates, sizes](mesh::Rank& rank) {
    constexpr std::int64_t rows = 4096;
    const MatrixView<double> source = rank.workspace<double>(rows, sizes.copy / rows);
    const MatrixView<double> target = rank.workspace<double>(rows, sizes.copy / rows);
    DeviceRates& own = rates->devices[static_cast<std::size_t>(rank.index())];
    own.copy = copy_rate(rank, source, target);
    own.gemm = gemm_rate<double>(rank, sizes.gemm);
    if (rank.count() > 1) {
      const double broadcast = broadcast_rate(rank, target);
      if (rank.index() == 0) {
        rates->broadcast = broadcast;
      }
    }
  });
  return *rates;
}

template <Scalar T>
double measure_gemm(Mesh& mesh, const RunOptions& options) {
  const std::int64_t n = sizes_for(mesh.memory()).gemm;
  const auto sum = std::make_shared<double>(0.0);
  mesh.state().run(options, [sum, n](mesh::Rank& rank) {
    const auto rates = programs::gather_from_all(rank, std::vector<double>{gemm_rate<T>(rank, n)});
    if (rank.leads()) {
      for (const auto& rate : rates) {
        *sum += rate.front();
      }
    }
  });
  return *sum;
}

template double measure_gemm<float>(Mesh&, const RunOptions&);
template double measure_gemm<double>(Mesh&, const RunOptions&);
template double measure_gemm<std::complex<float>>(Mesh&, const RunOptions&);
template double measure_gemm<std::complex<double>>(Mesh&, const RunOptions&);

}  // namespace shardsolve::cli::doctor
