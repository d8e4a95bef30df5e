// Every wait_sites.hpp below src/. scripts/prove_waits.py leaves out a wait by its number, and
// refuses to run if a wait_sites.hpp is missing here.

#include "comm/cuda/wait_sites.hpp"
#include "dense/cholesky/wait_sites.hpp"
#include "dense/eigh/wait_sites.hpp"
#include "dense/lu/wait_sites.hpp"
#include "dense/qr/wait_sites.hpp"
#include "dense/shared/wait_sites.hpp"
#include "dense/svd/wait_sites.hpp"
#include "krylov/wait_sites.hpp"
#include "programs/wait_sites.hpp"
#include "sparse/wait_sites.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace shardsolve {
namespace {

/// Whether all numbers are different. 0 is taken by the end of a queue, which is no wait for an
/// event.
template <std::size_t... sizes>
consteval bool have_numbers_of_their_own(const std::array<runtime::WaitSite, sizes>&... families) {
  std::array<int, (1 + ... + sizes)> numbers{};
  auto* next = numbers.begin() + 1;
  const auto append = [&](const auto& family) {
    for (const runtime::WaitSite& site : family) {
      *next++ = site.number;
    }
  };
  (append(families), ...);
  std::sort(numbers.begin(), numbers.end());
  return std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end();
}

static_assert(have_numbers_of_their_own(comm::cuda::sites::all, dense::sites::all,
                                        dense::cholesky::sites::all, dense::eigh::sites::all,
                                        dense::lu::sites::all, dense::qr::sites::all,
                                        dense::svd::sites::all, krylov::sites::all,
                                        programs::sites::all, sparse::sites::all),
              "two waits have the same number");

}  // namespace
}  // namespace shardsolve
