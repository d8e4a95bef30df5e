#include "jax/sparse_calls.hpp"

#include "jax/local_task.hpp"
#include "sparse/local_product.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>

namespace shardsolve::jax {
namespace {

// Row pointers are int64, told as two words each. `rank` says which rows y has, of y's length each.
constexpr CallBuffers product_buffers = {
    .operands = {any("values"), any("columns", Element::words), any("pointers", Element::words),
                 any("x"), any("rank", Element::words)},
    .results = {any("y")}};
// The memory of `before` becomes y, which stays as it is if `skip` is not 0.
constexpr CallBuffers product_into_buffers = {
    .operands = {any("values"), any("columns", Element::words), any("pointers", Element::words),
                 any("x"), any("rank", Element::words), any("before"), any("skip", Element::words)},
    .results = {any("y")}};

std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return sizeof(float);
    case Dtype::float64:
      return sizeof(double);
    case Dtype::complex64:
      return sizeof(std::complex<float>);
    case Dtype::complex128:
      return sizeof(std::complex<double>);
  }
  return 0;
}

/// `at` has the first five operands of both kinds at the same places.
void multiply(const LocalTask& task, BufferIndex y, const BufferIndex* skip) {
  static constexpr const CallBuffers& at = product_buffers;
  constexpr std::size_t word = sizeof(std::int32_t);
  const std::size_t element = size_of(task.dtype);
  const std::int64_t all_rows = task.option<std::int64_t>("rows");
  const std::int64_t own_rows = task.at(y).length;
  task.require_length(at["pointers"], 2 * (all_rows + 1));
  task.require_length(at["columns"], task.at(at["values"]).length);
  task.require_length(at["rank"], 1);
  task.enqueue_each([&](const runtime::KernelSource& device, runtime::Queue& queue,
                        std::int64_t item) {
    const auto* const rank_at = static_cast<const std::int32_t*>(task.item(at["rank"], item, word));
    // Of a GPU the kernel looks.
    const std::int64_t first = task.stream ? 0 : std::min(*rank_at * own_rows, all_rows);
    sparse::LocalProduct product{
        .dtype = task.dtype,
        .rows = task.stream ? own_rows : std::min(own_rows, all_rows - first),
        .size = task.at(at["x"]).length,
        .lanes = task.option<std::int64_t>("lanes"),
        .row_pointers =
            static_cast<const std::int64_t*>(task.item(at["pointers"], item, word)) + first,
        .columns = static_cast<const std::int32_t*>(task.item(at["columns"], item, word)),
        .values = task.item(at["values"], item, element),
        .x = task.item(at["x"], item, element),
        .y = task.item(y, item, element)};
    if (skip != nullptr) {
      product.skip = static_cast<const std::int32_t*>(task.item(*skip, item, word));
    }
    if (task.stream) {
      product.rank_at = rank_at;
      product.all_rows = all_rows;
    }
    sparse::enqueue(device, queue, product);
  });
}

void product(const LocalTask& task) { multiply(task, product_buffers["y"], nullptr); }

void product_into(const LocalTask& task) {
  static constexpr const CallBuffers& at = product_into_buffers;
  constexpr BufferIndex skip = at["skip"];
  task.require_length(skip, 1);
  if (task.at(at["before"]).data != task.at(at["y"]).data) {
    throw Error(ErrorKind::internal,
                "internal: XLA gave a product memory of its own where it was to change another's");
  }
  multiply(task, at["y"], &skip);
}

}  // namespace

std::vector<CallRow> sparse_calls() {
  return {{.name = "csr_product",
           .phrase = "a product with a sparse matrix",
           .buffers = product_buffers,
           .matrix = product_buffers["values"],
           .options = {{"rows", std::int64_t{0}}, {"lanes", std::int64_t{1}}},
           .local = product},
          {.name = "csr_product_into",
           .phrase = "a product with a sparse matrix",
           .buffers = product_into_buffers,
           .matrix = product_into_buffers["values"],
           .options = {{"rows", std::int64_t{0}}, {"lanes", std::int64_t{1}}},
           .local = product_into}};
}

}  // namespace shardsolve::jax
