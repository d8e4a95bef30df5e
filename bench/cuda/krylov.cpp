// shardsolve_bench_krylov_cuda: products with a sparse matrix and cg with Jacobi on GPUs, beside
// what the memory gives, cuSPARSE's products, and a plain cg of cuSPARSE and cuBLAS.
//
// Two systems: the 7-point Laplacian on edge^3 points; and one of the size of a small beam (1275
// rows, 132 entries each), a Laplacian in one dimension whose rows are filled up with zeros, which
// keeps cg busy for as many iterations as are asked for.
//
// Bytes are those of the arrays, each counted once a kernel that reads or writes it: of a product 4
// + 8 an entry and 8 + 16 a row; of a cg iteration those of the product and 12 vectors beside it
// (direction with x 5, curvature 2, advance with Jacobi and its sums 5). The share is of the rate
// of a copy between two arrays of the GPU in the same run.

#include "bench/cuda/device_buffer.hpp"
#include "krylov/tables.hpp"
#include "matgen/sparse_matrices.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/krylov_kernels.hpp"
#include "sparse/operator.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>
#include <shardsolve/sparse.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cublas_v2.h>
#include <cusparse.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <string>
#include <vector>

namespace shardsolve::bench {
namespace {

struct KrylovOptions {
  std::vector<std::int64_t> edges = {64, 128, 256};
  std::vector<int> devices = {0};
  std::int64_t rounds = 5;
  bool without_peers = false;
  std::vector<std::int64_t> stages;
};

void check_blas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(ErrorKind::device, fmt::format("{}: {}", what, cublasGetStatusString(status)));
  }
}
void check_sparse(cusparseStatus_t status, const char* what) {
  if (status != CUSPARSE_STATUS_SUCCESS) {
    throw Error(ErrorKind::device, fmt::format("{}: {}", what, cusparseGetErrorString(status)));
  }
}

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of one of `count` pieces of work that `enqueue` enqueues, on device 0 of the options.
double seconds_of(int device, std::int64_t count, const std::function<void()>& enqueue) {
  enqueue();
  synchronize(device);
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < count; ++i) {
    enqueue();
  }
  synchronize(device);
  return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(count);
}

/// Bytes a second, read and written.
double copy_rate(int device) {
  constexpr std::int64_t bytes = std::int64_t{1} << 30;
  const DeviceBuffer<char> from(device, bytes);
  const DeviceBuffer<char> to(device, bytes);
  const double seconds = seconds_of(device, 20, [&] {
    check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, nullptr),
          "a copy");
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

CsrMatrix<double> beam_sized() {
  constexpr std::int64_t n = 1275;
  constexpr std::int64_t reach = 66;
  CsrMatrix<double> a{n, n, {0}, {}, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = std::max<std::int64_t>(i - reach, 0); j <= std::min(i + reach, n - 1);
         ++j) {
      a.column_indices.push_back(j);
      a.values.push_back(i == j ? 2.0 : std::abs(i - j) == 1 ? -1.0 : 0.0);
    }
    a.row_pointers.push_back(a.entries());
  }
  return a;
}

double product_bytes(const CsrMatrix<double>& a) {
  return 12.0 * static_cast<double>(a.entries()) + 24.0 * static_cast<double>(a.rows);
}
double iteration_bytes(const CsrMatrix<double>& a) {
  return product_bytes(a) + 12.0 * 8.0 * static_cast<double>(a.rows);
}

/// Ours, on a mesh of these GPUs.
class Ours {
 public:
  Ours(const CsrMatrix<double>& a, const std::vector<int>& devices)
      : mesh_(Mesh::cuda(devices)),
        layout_(row_slabs(a.rows, static_cast<std::int64_t>(devices.size()))),
        a_(mesh_, a, layout_),
        jacobi_(krylov::Operator<double>::jacobi(a)),
        b_(make_right_hand_sides<double>(mesh_, layout_, 1)),
        x_(make_right_hand_sides<double>(mesh_, layout_, 1)) {
    const RightHandSides<double> ones(layout_, 1);
    for (std::int64_t r = 0; r < layout_.ranks(); ++r) {
      for (std::int64_t i = 0; i < layout_.width(r); ++i) {
        ones.block(r)(i, 0) = i % 3 == 0 ? 1.0 : -0.25;
      }
    }
    copy(mesh_, ones, b_);
  }

  /// Of one product.
  double product_seconds(std::int64_t count) {
    const auto run = [&](std::int64_t times) {
      const auto start = Clock::now();
      mesh_.state().run({}, [&](mesh::Rank& rank) {
        sparse::Operator<double> product(rank, a_);
        for (std::int64_t i = 0; i < times; ++i) {
          product.apply(rank.update(), b_.block(rank.index()).data(),
                        x_.block(rank.index()).data());
        }
        rank.finish(rank.update());
      });
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    run(2);
    const double few = run(count / 10);
    return (run(count) - few) / static_cast<double>(count - count / 10);
  }

  /// Of one iteration: what more iterations take longer.
  double iteration_seconds(std::int64_t few, std::int64_t many) {
    const double shorter = solve(few);
    return (solve(many) - shorter) / static_cast<double>(many - few);
  }

 private:
  double solve(std::int64_t iterations) {
    const krylov::Result result =
        krylov::solve(mesh_, krylov::Operator<double>::sparse(a_), jacobi_, b_, x_,
                      {.rtol = 1e-14, .max_iterations = iterations});
    if (result.iterations != iterations) {
      throw Error(ErrorKind::internal, fmt::format("cg ended after {} iterations instead of {}: {}",
                                                   result.iterations, iterations, result.message));
    }
    return result.outcome.seconds;
  }

  Mesh mesh_;
  SlabLayout layout_;
  SparseMatrix<double> a_;
  krylov::Operator<double> jacobi_;
  RightHandSides<double> b_;
  RightHandSides<double> x_;
};

/// cuSPARSE and cuBLAS on one GPU.
class Nvidia {
 public:
  Nvidia(const CsrMatrix<double>& a, int device)
      : device_(device),
        n_(a.rows),
        pointers_(device, std::vector<int>(a.row_pointers.begin(), a.row_pointers.end())),
        columns_(device, std::vector<int>(a.column_indices.begin(), a.column_indices.end())),
        values_(device, a.values) {
    std::vector<double> diagonal;
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t k = a.row_pointers[static_cast<std::size_t>(i)];
           k < a.row_pointers[static_cast<std::size_t>(i) + 1]; ++k) {
        if (a.column_indices[static_cast<std::size_t>(k)] == i) {
          diagonal.push_back(1.0 / a.values[static_cast<std::size_t>(k)]);
        }
      }
    }
    inverse_diagonal_ = DeviceBuffer<double>(device, diagonal);
    std::vector<double> b;
    for (std::int64_t i = 0; i < n_; ++i) {
      b.push_back(i % 3 == 0 ? 1.0 : -0.25);
    }
    for (DeviceBuffer<double>* const vector : {&x_, &r_, &z_, &p_, &q_}) {
      *vector = DeviceBuffer<double>(device, b);
    }
    check_sparse(cusparseCreate(&sparse_), "cusparseCreate");
    check_blas(cublasCreate(&blas_), "cublasCreate");
    check_sparse(cusparseCreateCsr(&matrix_, n_, n_, a.entries(), pointers_.data(), columns_.data(),
                                   values_.data(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                   CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
                 "cusparseCreateCsr");
    check_sparse(cusparseCreateDnVec(&of_p_, n_, p_.data(), CUDA_R_64F), "cusparseCreateDnVec");
    check_sparse(cusparseCreateDnVec(&of_q_, n_, q_.data(), CUDA_R_64F), "cusparseCreateDnVec");
  }
  ~Nvidia() {
    cusparseDestroyDnVec(of_p_);
    cusparseDestroyDnVec(of_q_);
    cusparseDestroySpMat(matrix_);
    cublasDestroy(blas_);
    cusparseDestroy(sparse_);
  }
  Nvidia(const Nvidia&) = delete;
  Nvidia& operator=(const Nvidia&) = delete;

  double product_seconds(cusparseSpMVAlg_t algorithm, std::int64_t count) {
    prepare(algorithm);
    return seconds_of(device_, count, [&] { multiply(algorithm); });
  }

  /// Of one iteration of cg with Jacobi: scalars come to the host, as in NVIDIA's samples.
  double iteration_seconds(cusparseSpMVAlg_t algorithm, std::int64_t count) {
    prepare(algorithm);
    const int n = static_cast<int>(n_);
    double rho = 1.0;
    const auto iterate = [&] {
      multiply(algorithm);
      double curvature = 0.0;
      check_blas(cublasDdot(blas_, n, p_.data(), 1, q_.data(), 1, &curvature), "cublasDdot");
      const double alpha = rho / curvature;
      const double minus_alpha = -alpha;
      check_blas(cublasDaxpy(blas_, n, &alpha, p_.data(), 1, x_.data(), 1), "cublasDaxpy");
      check_blas(cublasDaxpy(blas_, n, &minus_alpha, q_.data(), 1, r_.data(), 1), "cublasDaxpy");
      double norm = 0.0;
      check_blas(cublasDdot(blas_, n, r_.data(), 1, r_.data(), 1, &norm), "cublasDdot");
      check_blas(cublasDdgmm(blas_, CUBLAS_SIDE_LEFT, n, 1, r_.data(), n, inverse_diagonal_.data(),
                             1, z_.data(), n),
                 "cublasDdgmm");
      double next = 0.0;
      check_blas(cublasDdot(blas_, n, r_.data(), 1, z_.data(), 1, &next), "cublasDdot");
      const double beta = next / rho;
      const double one = 1.0;
      check_blas(cublasDscal(blas_, n, &beta, p_.data(), 1), "cublasDscal");
      check_blas(cublasDaxpy(blas_, n, &one, z_.data(), 1, p_.data(), 1), "cublasDaxpy");
      rho = next;
    };
    return seconds_of(device_, count, iterate);
  }

 private:
  void prepare(cusparseSpMVAlg_t algorithm) {
    std::size_t bytes = 0;
    check_sparse(cusparseSpMV_bufferSize(sparse_, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_, matrix_,
                                         of_p_, &zero_, of_q_, CUDA_R_64F, algorithm, &bytes),
                 "cusparseSpMV_bufferSize");
    work_ = DeviceBuffer<char>(device_, static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1)));
    check_sparse(cusparseSpMV_preprocess(sparse_, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_, matrix_,
                                         of_p_, &zero_, of_q_, CUDA_R_64F, algorithm, work_.data()),
                 "cusparseSpMV_preprocess");
  }
  void multiply(cusparseSpMVAlg_t algorithm) {
    check_sparse(cusparseSpMV(sparse_, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_, matrix_, of_p_,
                              &zero_, of_q_, CUDA_R_64F, algorithm, work_.data()),
                 "cusparseSpMV");
  }

  static constexpr double one_ = 1.0;
  static constexpr double zero_ = 0.0;
  int device_;
  std::int64_t n_;
  DeviceBuffer<int> pointers_;
  DeviceBuffer<int> columns_;
  DeviceBuffer<double> values_;
  DeviceBuffer<double> inverse_diagonal_;
  DeviceBuffer<double> x_;
  DeviceBuffer<double> r_;
  DeviceBuffer<double> z_;
  DeviceBuffer<double> p_;
  DeviceBuffer<double> q_;
  DeviceBuffer<char> work_;
  cusparseHandle_t sparse_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  cusparseSpMatDescr_t matrix_ = nullptr;
  cusparseDnVecDescr_t of_p_ = nullptr;
  cusparseDnVecDescr_t of_q_ = nullptr;
};

/// Microseconds of each kernel of a cg round on one GPU, each enqueued again and again as a graph.
nlohmann::json stages(std::int64_t n, int device) {
  Mesh mesh = Mesh::cuda({device});
  nlohmann::json result;
  mesh.state().run({}, [&](mesh::Rank& rank) {
    using krylov::State;
    runtime::Queue& queue = rank.update();
    const auto& kernels = rank.kernels<runtime::KrylovKernels<double>>();
    const auto& table = krylov::table_of(krylov::Method::cg);
    krylov::Vectors<double> vectors;
    vectors.rows = n;
    for (int v = 0; v < table.vectors; ++v) {
      const auto memory = rank.workspace<double>(n, 1);
      rank.kernels<double>().fill(queue, 1.0, memory);
      vectors.base[v] = memory.data();
      vectors.stride[v] = n;
    }
    State* const state = rank.workspace<State>(1, 1).data();
    State* const kept = rank.workspace<State>(1, 1).data();
    krylov::StateRoom room;
    room.sums = rank.workspace<krylov::Number>(8, 1).data();
    room.column_factors = rank.workspace<krylov::Number>(8, 1).data();
    const std::uint32_t nobody = 0;
    room.turnstile = const_cast<std::uint32_t*>(rank.upload(queue, &nobody, 1));
    vectors.base[krylov::Vectors<double>::diagonal] = vectors.base[0];
    const std::vector<std::int64_t> cut{0, n};
    const std::int64_t* const boundaries = rank.upload(queue, cut.data(), 2);
    const krylov::SumLayout layout{n, 1, boundaries, krylov::SumLayout::block_leaves_of(n)};
    const std::vector<std::int64_t> ends{0, 4 * layout.blocks() + 1};
    const std::int64_t* const offsets = rank.upload(queue, ends.data(), 2);
    const auto parts = rank.workspace<double>(ends[1], 1);
    rank.kernels<double>().fill(queue, 0.5, parts);
    rank.kernels<double>().fill(queue, 0.0, parts.block(ends[1] - 1, 0, 1, 1));
    const krylov::SumTable<double> sums{layout, 0, 4, 4, parts.data(), offsets};
    krylov::Problem problem;
    problem.n = n;
    problem.breakdown = 1e-12;
    problem.asymmetry = 1e-9;
    problem.growth = 1e300;
    problem.max_iterations = 1 << 30;
    problem.drift_every = 1 << 30;
    const auto time = [&](const std::string& name, const State& first,
                          const std::function<void()>& enqueue) {
      const State* const loaded = rank.upload(queue, &first, 1);
      queue.copy(kept, loaded, sizeof(State));
      queue.copy(state, kept, sizeof(State));
      enqueue();
      constexpr int times = 50;
      const auto recording = queue.capture([&] {
        for (int i = 0; i < times; ++i) {
          enqueue();
        }
      });
      std::vector<double> seconds;
      for (int round = 0; round < 5; ++round) {
        queue.synchronize();
        const auto start = Clock::now();
        queue.repeat(*recording);
        queue.repeat(*recording);
        queue.synchronize();
        seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      }
      result[name] = 1e6 * median(seconds) / (2 * times);
    };
    State going;
    going.phase = krylov::Phase::iterate;
    going.norm_b = going.norm_r = going.best_norm = 1.0;
    going.rho = {1.0, 0.0};
    going.actions = krylov::act_always | krylov::act_iterate | krylov::act_next_direction |
                    krylov::act_advance | krylov::act_collect;
    State done = going;
    done.done = 1;
    for (const krylov::Stage& stage : table.stages) {
      if (stage.kind == krylov::Stage::Kind::run) {
        for (const bool is_done : {false, true}) {
          time(std::string(stage.program.name) + (is_done ? ", done" : ""), is_done ? done : going,
               [&] { kernels.run(queue, stage.program, vectors, state, room, sums); });
        }
      } else if (stage.kind == krylov::Stage::Kind::reduce) {
        for (const bool is_done : {false, true}) {
          time(fmt::format("finish {}{}", stage.reduction, is_done ? ", done" : " and a copy"),
               is_done ? done : going, [&] {
                 if (!is_done) {
                   queue.copy(state, kept, sizeof(State));
                 }
                 kernels.finish(queue, problem, stage.reduction, sums, state, room);
               });
        }
      } else if (stage.kind == krylov::Stage::Kind::precondition) {
        time("jacobi", going, [&] {
          kernels.divide_rows(queue, {vectors.base[0], n, 1}, {vectors.base[1], n, 1},
                              {vectors.base[2], n, 1}, &state->done);
        });
      }
    }
    const krylov::SumTable<double> both[] = {sums, sums};
    const auto parts_of = [&](std::initializer_list<std::size_t> stages_of_part) {
      krylov::Part part;
      for (const std::size_t at : stages_of_part) {
        const krylov::Stage& stage = table.stages[at];
        if (stage.kind == krylov::Stage::Kind::run) {
          part.add_program(stage.program, stage.reduction);
        } else if (stage.kind == krylov::Stage::Kind::reduce) {
          part.add_end(stage.reduction);
        } else {
          part.add_division(stage.input, stage.output, krylov::unless(stage.skip));
        }
      }
      return part;
    };
    const krylov::Part fused = parts_of({4, 5, 6});
    time("advance, jacobi, preconditioned", going,
         [&] { kernels.run_part(queue, problem, fused, vectors, both, state, room); });
    const krylov::Part all = parts_of({2, 3, 4, 5, 6, 7, 0});
    time("all between two products and a copy", going, [&] {
      queue.copy(state, kept, sizeof(State));
      kernels.run_part(queue, problem, all, vectors, both, state, room);
    });
    krylov::Vectors<double> without_m = vectors;
    without_m.base[table.identity.output] = vectors.base[table.identity.input];
    const krylov::Part plain = parts_of({2, 3, 4, 6, 7, 0});
    time("all between two products without a preconditioner and a copy", going, [&] {
      queue.copy(state, kept, sizeof(State));
      kernels.run_part(queue, problem, plain, without_m, both, state, room);
    });
    time("a copy of the state", going, [&] { queue.copy(state, kept, sizeof(State)); });
  });
  result["rows"] = n;
  return result;
}

/// What a system takes.
nlohmann::json measure(const std::string& name, const CsrMatrix<double>& a,
                       const KrylovOptions& options, double copied) {
  const bool is_small = a.rows < 100'000;
  const std::int64_t few = is_small ? 100 : 10;
  const std::int64_t many = is_small ? (name == "beam-sized" ? 1000 : 120) : 60;
  const std::int64_t products = is_small ? 1000 : 100;
  std::vector<double> product;
  std::vector<double> iteration;
  {
    Ours ours(a, options.devices);
    ours.iteration_seconds(few / 2, few);
    for (std::int64_t round = 0; round < options.rounds; ++round) {
      product.push_back(ours.product_seconds(products));
      iteration.push_back(ours.iteration_seconds(few, many));
    }
  }
  const double rate = copied * static_cast<double>(options.devices.size());
  nlohmann::json result = {{"system", name},
                           {"rows", a.rows},
                           {"entries", a.entries()},
                           {"devices", options.devices.size()},
                           {"copy_gb_per_s", copied / 1e9},
                           {"product_us", 1e6 * median(product)},
                           {"product_share_of_copy", product_bytes(a) / median(product) / rate},
                           {"cg_iteration_us", 1e6 * median(iteration)},
                           {"cg_iteration_bytes", iteration_bytes(a)},
                           {"cg_share_of_copy", iteration_bytes(a) / median(iteration) / rate}};
  if (!options.without_peers) {
    Nvidia nvidia(a, options.devices.front());
    double best = 1e300;
    auto best_algorithm = CUSPARSE_SPMV_ALG_DEFAULT;
    for (const auto& [algorithm, of] : {std::pair{CUSPARSE_SPMV_ALG_DEFAULT, "default"},
                                        {CUSPARSE_SPMV_CSR_ALG1, "csr_alg1"},
                                        {CUSPARSE_SPMV_CSR_ALG2, "csr_alg2"}}) {
      std::vector<double> seconds;
      for (std::int64_t round = 0; round < options.rounds; ++round) {
        seconds.push_back(nvidia.product_seconds(algorithm, products));
      }
      result[fmt::format("cusparse_{}_us", of)] = 1e6 * median(seconds);
      if (median(seconds) < best) {
        best = median(seconds);
        best_algorithm = algorithm;
      }
    }
    result["cusparse_over_ours"] = best / median(product);
    std::vector<double> seconds;
    for (std::int64_t round = 0; round < options.rounds; ++round) {
      seconds.push_back(nvidia.iteration_seconds(best_algorithm, is_small ? 300 : 40));
    }
    result["cusparse_cublas_cg_iteration_us"] = 1e6 * median(seconds);
  }
  return result;
}

int run(int argc, char** argv) {
  KrylovOptions options;
  CLI::App app{"Times sparse products and cg on GPUs; prints one JSON object a system."};
  app.add_option("--edges", options.edges, "points of an edge of the grids; 0: the beam-sized one")
      ->delimiter(',');
  app.add_option("--devices", options.devices, "CUDA's numbers of the GPUs")->delimiter(',');
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000));
  app.add_flag("--without-peers", options.without_peers, "ours alone");
  app.add_option("--stages", options.stages,
                 "rows: times of the single kernels of a cg round instead")
      ->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  for (const std::int64_t rows : options.stages) {
    std::cout << stages(rows, options.devices.front()) << std::endl;
  }
  if (!options.stages.empty()) {
    return 0;
  }
  const double copied = copy_rate(options.devices.front());
  for (const std::int64_t edge : options.edges) {
    const CsrMatrix<double> a = edge == 0 ? beam_sized() : matgen::laplacian_3d<double>(edge);
    const std::string name = edge == 0 ? "beam-sized" : fmt::format("7-point, {}^3", edge);
    std::cout << measure(name, a, options, copied) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  try {
    return shardsolve::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "shardsolve_bench_krylov_cuda: " << error.what() << '\n';
    return 1;
  }
}
