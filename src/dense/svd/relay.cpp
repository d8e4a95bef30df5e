#include "dense/svd/relay.hpp"

#include "core/each_dtype.hpp"
#include "dense/svd/wait_sites.hpp"
#include "programs/plan_parts.hpp"
#include "programs/step_flags.hpp"

#include <complex>

namespace shardsolve::dense::svd {
namespace {

using runtime::Op;

/// While one tile is used, the next one travels.
constexpr std::int64_t slots = 2;

}  // namespace

template <Scalar T>
Relay<T>::Relay(mesh::Rank& rank, std::int64_t elements)
    : rank_(rank), kernels_(rank.kernels<T>()), messages_(rank, slots, elements) {}

template <Scalar T>
std::int64_t Relay<T>::bytes(std::int64_t elements) {
  return slots * (elements * static_cast<std::int64_t>(sizeof(T)) + programs::header_bytes);
}

template <Scalar T>
template <class Use>
void Relay<T>::run(const SlabLayout& layout, const std::vector<In>& parts, Use use) {
  programs::StepFlags flags(rank_);
  rank_.finish(rank_.update());  // which makes what travels
  const std::int64_t height = parts.front().rows();
  const auto count = static_cast<std::int64_t>(parts.size());
  for (std::int64_t i = 0; i < layout.steps() && flags.may_enqueue(i); ++i, ++turn_) {
    const Step step(i);
    rank_.set_step(i);
    const std::int64_t owner = layout.owner(step);
    const bool owns = owner == rank_.index();
    const LocalRange columns = layout.columns(step);
    const auto travelling = [&](std::int64_t part) {
      return messages_.payload(turn_, owner, part * height * columns.size(), height,
                               columns.size());
    };
    messages_.await_done(turn_, sites::columns_used);
    messages_.begin(turn_, owns);
    if (owns) {
      messages_.stamp(rank_.transfer(), turn_);
      for (std::int64_t part = 0; part < count; ++part) {
        kernels_.copy(rank_.transfer(),
                      parts[static_cast<std::size_t>(part)].columns_from(columns.begin.value(),
                                                                         columns.size()),
                      travelling(part));
      }
    }
    messages_.publish(turn_, owner, count * height * columns.size());
    flags.receive(i, messages_.header(turn_, owner));
    rank_.transfer().record(messages_.arrived(turn_));
    rank_.update().wait(messages_.arrived(turn_), sites::columns_arrived);
    use(layout.rows(step), travelling(0), travelling(count - 1));
    rank_.update().record(messages_.done(turn_));
  }
  flags.finish(layout.steps());
  flags.throw_if_cancelled();
  rank_.finish(rank_.update());
}

template <Scalar T>
void Relay<T>::gram(const SlabLayout& layout, T alpha, In y, GlobalRange own, T beta, Out g) {
  add_products(layout, alpha, {y}, own, beta, g);
}

template <Scalar T>
void Relay<T>::outer(const SlabLayout& layout, T alpha, In y, In z, GlobalRange own, T beta,
                     Out g) {
  add_products(layout, alpha, {y, z}, own, beta, g);
}

template <Scalar T>
void Relay<T>::add_products(const SlabLayout& layout, T alpha, const std::vector<In>& parts,
                            GlobalRange own, T beta, Out g) {
  run(layout, parts, [&](GlobalRange rows, In of_y, In of_z) {
    const In own_rows = of_z.block(own.begin.value(), 0, own.size(), of_z.columns());
    kernels_.gemm(rank_.update(), Op::none, Op::conjugate_transpose, alpha, of_y, own_rows,
                  rows.begin.value() == 0 ? beta : T{1}, g);
  });
}

template <Scalar T>
void Relay<T>::adjoint_times(const SlabLayout& layout, T alpha, In y, In x, T beta, Out target) {
  run(layout, {y}, [&](GlobalRange rows, In of_y, In) {
    kernels_.gemm(rank_.update(), Op::conjugate_transpose, Op::none, alpha, of_y, x, beta,
                  target.block(rows.begin.value(), 0, rows.size(), target.columns()));
  });
}

template <Scalar T>
void Relay<T>::times(const SlabLayout& layout, In y, In x, Out target) {
  run(layout, {y}, [&](GlobalRange rows, In of_y, In) {
    kernels_.gemm(rank_.update(), Op::none, Op::none, T{1}, of_y,
                  x.block(rows.begin.value(), 0, rows.size(), x.columns()),
                  rows.begin.value() == 0 ? T{0} : T{1}, target);
  });
}

template class Relay<float>;
template class Relay<double>;
template class Relay<std::complex<float>>;
template class Relay<std::complex<double>>;

}  // namespace shardsolve::dense::svd
