// Products of an operator kept while a solve runs, and given again.

#include "comm/communicator.hpp"
#include "core/each_dtype.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/operators.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"
#include "runtime/host/host_queue.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov_files.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace shardsolve::krylov {
namespace recording {
namespace {

/// The rows that one rank has of all products.
template <Scalar T>
struct Share {
  std::int64_t count = 0;  ///< products, kept or not
  std::vector<T> x;
  std::vector<T> y;
};

}  // namespace
}  // namespace recording

template <Scalar T>
struct ProductRecorder<T>::Kept {
  std::int64_t max_bytes = 0;
  std::mutex mutex;  ///< of all but what the shares hold
  std::optional<SlabLayout> layout;
  std::map<std::int64_t, recording::Share<T>> shares;  ///< of the ranks in this process

  std::int64_t bytes(std::int64_t count) const {
    return 2 * count * layout->size() * static_cast<std::int64_t>(sizeof(T));
  }

  /// Throws Error(invalid_argument) if another solve was recorded on another cut.
  recording::Share<T>& share_of(std::int64_t rank, const SlabLayout& of_b) {
    const std::lock_guard lock(mutex);
    if (layout && layout->boundaries() != of_b.boundaries()) {
      throw Error(ErrorKind::invalid_argument,
                  "a recorder that has products of vectors cut at other rows: take a new one for "
                  "each solve");
    }
    layout = of_b;
    return shares[rank];
  }
};

namespace recording {
namespace {

/// An operator whose products are kept, on one rank.
template <Scalar T>
class Recorded final : public LinearOperator<T> {
 public:
  using Kept = typename ProductRecorder<T>::Kept;

  Recorded(mesh::Rank& rank, const SlabLayout& layout, std::unique_ptr<LinearOperator<T>> a,
           std::shared_ptr<Kept> kept)
      : a_(std::move(a)),
        kept_(std::move(kept)),
        share_(kept_->share_of(rank.index(), layout)),
        rows_(layout.width(rank.index())) {}

  void apply(mesh::Rank& rank, runtime::Queue& queue, const T* x, T* y,
             const std::int32_t* skip) override {
    a_->apply(rank, queue, x, y, skip);
    static_cast<runtime::host::HostQueue&>(queue).launch(
        {.name = "record"}, [kept = kept_, &share = share_, rows = rows_, x, y, skip] {
          if (*skip != 0) {
            return;
          }
          ++share.count;
          if (kept->bytes(share.count) > kept->max_bytes) {
            share.x = {};
            share.y = {};
            return;
          }
          share.x.insert(share.x.end(), x, x + rows);
          share.y.insert(share.y.end(), y, y + rows);
        });
  }

 private:
  std::unique_ptr<LinearOperator<T>> a_;
  std::shared_ptr<Kept> kept_;
  Share<T>& share_;
  std::int64_t rows_;
};

/// Rows of `count` vectors of all ranks, whole: each rank gives its rows of the first one, then of
/// the second one, and so on. Waits.
template <Scalar T>
std::vector<T> gather_vectors(mesh::Rank& rank, const SlabLayout& layout, std::int64_t count,
                              const std::vector<T>& mine) {
  const MatrixView<T> all = rank.workspace<T>(layout.size(), count);
  std::vector<comm::Bytes> pieces;
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    pieces.push_back({all.data() + layout.segment(r).begin.value() * count,
                      static_cast<std::size_t>(layout.width(r) * count) * sizeof(T)});
  }
  const comm::Bytes own = pieces[static_cast<std::size_t>(rank.index())];
  rank.transfer().copy(own.data, mine.data(), own.size);
  rank.transfer().synchronize();
  if (rank.count() > 1) {
    rank.communicator().all_gather(rank.transfer(), pieces);
  }
  const std::vector<T> by_ranks = rank.fetch(rank.transfer(), all.data(), layout.size() * count);
  std::vector<T> whole(by_ranks.size());
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    const std::int64_t first = layout.segment(r).begin.value();
    const std::int64_t width = layout.width(r);
    for (std::int64_t k = 0; k < count; ++k) {
      std::copy_n(by_ranks.begin() + first * count + k * width, width,
                  whole.begin() + k * layout.size() + first);
    }
  }
  return whole;
}

/// Where each rank is in the products that it gives again.
template <Scalar T>
struct Player {
  RecordedProducts<T> products;
  std::mutex mutex;
  std::map<std::int64_t, std::int64_t> given;  ///< by rank
};

/// Products given again, on one rank.
template <Scalar T>
class Replayed final : public LinearOperator<T> {
 public:
  Replayed(mesh::Rank& rank, const SlabLayout& layout, std::shared_ptr<Player<T>> player)
      : player_(std::move(player)),
        given_([&]() -> std::int64_t& {
          const std::lock_guard lock(player_->mutex);
          return player_->given[rank.index()];
        }()),
        segment_(layout.segment(rank.index())) {}

  void apply(mesh::Rank& /*rank*/, runtime::Queue& queue, const T* x, T* y,
             const std::int32_t* skip) override {
    static_cast<runtime::host::HostQueue&>(queue).launch(
        {.name = "replay"}, [player = player_, &given = given_, segment = segment_, x, y, skip] {
          if (*skip == 0) {
            give(player->products, given++, segment, x, y);
          }
        });
  }

 private:
  static void give(const RecordedProducts<T>& products, std::int64_t which, GlobalRange rows,
                   const T* x, T* y) {
    constexpr const char* reason =
        "the solve takes another way than the one that was recorded. Products that were recorded "
        "serve the same solve alone: same method, preconditioner, tolerances and limits, and the "
        "same version of shardsolve";
    if (which >= products.count()) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("product {} was asked for, and {} were recorded: {}", which + 1,
                              products.count(), reason));
    }
    const std::int64_t at = which * products.n + rows.begin.value();
    const auto bytes = static_cast<std::size_t>(rows.size()) * sizeof(T);
    if (bytes == 0) {
      return;
    }
    if (std::memcmp(x, products.x.data() + at, bytes) != 0) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("product {} was asked for with another vector than the one that was "
                              "recorded: {}",
                              which + 1, reason));
    }
    std::memcpy(y, products.y.data() + at, bytes);
  }

  std::shared_ptr<Player<T>> player_;
  std::int64_t& given_;
  GlobalRange segment_;
};

}  // namespace
}  // namespace recording

template <Scalar T>
ProductRecorder<T>::ProductRecorder(std::int64_t max_bytes) : kept_(std::make_shared<Kept>()) {
  kept_->max_bytes = max_bytes;
}

template <Scalar T>
Operator<T> ProductRecorder<T>::record(const Operator<T>& a) const {
  return Operator<T>(
      [a, kept = kept_](mesh::Rank& rank,
                        const SlabLayout& layout) -> std::unique_ptr<LinearOperator<T>> {
        require_host(rank, "a recorder of products");
        return std::make_unique<recording::Recorded<T>>(rank, layout, a.make()(rank, layout), kept);
      });
}

template <Scalar T>
RecordedProducts<T> ProductRecorder<T>::products(Mesh& mesh) const {
  const auto found = std::make_shared<RecordedProducts<T>>();
  mesh.state().run({}, [found, kept = kept_](mesh::Rank& rank) {
    std::unique_lock lock(kept->mutex);
    const auto share = kept->shares.find(rank.index());
    if (share == kept->shares.end()) {
      return;  // no solve was recorded
    }
    const SlabLayout layout = *kept->layout;
    const recording::Share<T>& mine = share->second;
    lock.unlock();
    if (kept->bytes(mine.count) > kept->max_bytes) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("the {} products of the solve take {} bytes, and {} are allowed: "
                              "allow the recorder more, or capture a solve that fails sooner, from "
                              "a guess near where this one failed",
                              mine.count, kept->bytes(mine.count), kept->max_bytes));
    }
    RecordedProducts<T> whole{layout.size(),
                              recording::gather_vectors(rank, layout, mine.count, mine.x),
                              recording::gather_vectors(rank, layout, mine.count, mine.y)};
    if (rank.leads()) {
      *found = std::move(whole);
    }
  });
  return std::move(*found);
}

template <Scalar T>
Operator<T> replay_products(RecordedProducts<T> products) {
  if (products.n < 0 || products.x.size() != products.y.size() ||
      products.x.size() != static_cast<std::size_t>(products.count() * products.n)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} numbers x and {} numbers y given as products of vectors of {}; "
                            "both have as many, n for each product",
                            products.x.size(), products.y.size(), products.n));
  }
  const auto player = std::make_shared<recording::Player<T>>();
  player->products = std::move(products);
  return Operator<T>(
      [player](mesh::Rank& rank, const SlabLayout& layout) -> std::unique_ptr<LinearOperator<T>> {
        require_host(rank, "products that were recorded");
        if (player->products.n != layout.size()) {
          throw Error(ErrorKind::invalid_argument,
                      fmt::format("products of vectors of {} rows were recorded, and b has {}",
                                  player->products.n, layout.size()));
        }
        return std::make_unique<recording::Replayed<T>>(rank, layout, player);
      });
}

#define SHARDSOLVE_INSTANTIATE(T)    \
  template class ProductRecorder<T>; \
  template Operator<T> replay_products(RecordedProducts<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
