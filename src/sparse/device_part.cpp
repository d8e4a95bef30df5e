#include "sparse/device_part.hpp"

#include "core/each_dtype.hpp"

#include <cstddef>
#include <vector>

namespace shardsolve::sparse {
namespace {

/// Lists one after the other in one piece of memory.
class ListCopies {
 public:
  ListCopies(mesh::Rank& rank, const runtime::Buffer& memory) : rank_(rank), memory_(memory) {}

  template <class Value>
  static std::size_t room(const std::vector<Value>& list) {
    return (list.size() * sizeof(Value) + alignment - 1) / alignment * alignment;
  }
  template <class Value>
  const Value* add(const std::vector<Value>& list) {
    auto* const target = reinterpret_cast<Value*>(static_cast<std::byte*>(memory_.data()) + used_);
    rank_.update().copy(target, list.data(), list.size() * sizeof(Value));
    used_ += room(list);
    return target;
  }

 private:
  static constexpr std::size_t alignment = 256;
  mesh::Rank& rank_;
  const runtime::Buffer& memory_;
  std::size_t used_ = 0;
};

}  // namespace

template <Scalar T>
void copy_to_gpu(mesh::Rank& rank, runtime::Device& device, Part<T>& part) {
  const CsrSlab<T>& slab = part.slab;
  const std::size_t bytes = ListCopies::room(slab.row_pointers) + ListCopies::room(slab.columns) +
                            ListCopies::room(slab.values) + ListCopies::room(slab.interior.list) +
                            ListCopies::room(slab.boundary.list) +
                            ListCopies::room(part.plan.packed);
  const runtime::Buffer memory = device.allocate(bytes);
  ListCopies copies(rank, memory);
  part.on_gpu.emplace(DeviceLists<T>{.memory = memory,
                                     .row_pointers = copies.add(slab.row_pointers),
                                     .columns = copies.add(slab.columns),
                                     .values = copies.add(slab.values),
                                     .interior = copies.add(slab.interior.list),
                                     .boundary = copies.add(slab.boundary.list),
                                     .packed = copies.add(part.plan.packed)});
  rank.finish(rank.update());
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template void copy_to_gpu(mesh::Rank&, runtime::Device&, Part<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
