/// What a program does in most rounds, as one of a few shapes that kernels are compiled for. In a
/// round that asks for anything else a kernel reads the program's list.
#pragma once

#include "runtime/krylov/program.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace shardsolve::krylov {

/// Updates and sums of vectors that have numbers in the order in which they are first named: of an
/// update the target, a, b, as far as its kind has them; of a sum x, y.
struct Shape {
  static constexpr int max_vectors = 5;
  static constexpr int max_updates = 3;
  static constexpr int max_sums = 3;

  struct Update {
    UpdateKind kind{};
    int target = 0;
    int a = 0;
    int b = 0;

    constexpr bool operator==(const Update&) const = default;
    /// Whether y = ... of y.
    SHARDSOLVE_HOST_DEVICE constexpr bool reads_target() const {
      return kind == UpdateKind::add_scaled || kind == UpdateKind::scale_add;
    }
    SHARDSOLVE_HOST_DEVICE constexpr bool reads_a() const { return kind != UpdateKind::clear; }
    SHARDSOLVE_HOST_DEVICE constexpr bool reads_b() const {
      return kind == UpdateKind::subtract || kind == UpdateKind::divide;
    }
    SHARDSOLVE_HOST_DEVICE constexpr bool reads(int vector) const {
      return (reads_target() && target == vector) || (reads_a() && a == vector) ||
             (reads_b() && b == vector);
    }
  };
  struct Sum {
    int x = 0;
    int y = 0;

    constexpr bool operator==(const Sum&) const = default;
  };
  int vectors = 0;
  int updates = 0;
  int sums = 0;
  Update update[max_updates] = {};
  Sum sum[max_sums] = {};
  /// Bit v: the kernels that follow do without vector v, so caches may, too.
  unsigned passing = 0;

  constexpr bool does_the_same_as(const Shape& other) const {
    return vectors == other.vectors && updates == other.updates && sums == other.sums &&
           std::equal(update, update + max_updates, other.update) &&
           std::equal(sum, sum + max_sums, other.sum);
  }

  /// Whether a vector is read before it is written.
  SHARDSOLVE_HOST_DEVICE constexpr bool is_loaded(int vector) const {
    for (int u = 0; u < updates; ++u) {
      if (update[u].reads(vector)) {
        return true;
      }
      if (update[u].target == vector) {
        return false;
      }
    }
    return true;
  }
  /// Whether an update is the last one of its target.
  SHARDSOLVE_HOST_DEVICE constexpr bool is_stored(int number) const {
    for (int u = number + 1; u < updates; ++u) {
      if (update[u].target == update[number].target) {
        return false;
      }
    }
    return true;
  }
};

// clang-format off
inline constexpr Shape shapes[] = {
    // <p, q>, <p, p>, <q, q>
    {.vectors = 2, .updates = 0, .sums = 3, .update = {},
     .sum = {{0, 1}, {0, 0}, {1, 1}}, .passing = 0b01},
    // r += c q, <r, r>
    {.vectors = 2, .updates = 1, .sums = 1,
     .update = {{UpdateKind::add_scaled, 0, 1}},
     .sum = {{0, 0}}, .passing = 0b10},
    // r += c q, z = r / D, <r, r>, <r, z>, <z, z>
    {.vectors = 4, .updates = 2, .sums = 3,
     .update = {{UpdateKind::add_scaled, 0, 1}, {UpdateKind::divide, 2, 0, 3}},
     .sum = {{0, 0}, {0, 2}, {2, 2}}, .passing = 0b1011},
    // <r, z>, <z, z>
    {.vectors = 2, .updates = 0, .sums = 2, .update = {},
     .sum = {{0, 1}, {1, 1}}, .passing = 0b01},
    // x += c p, p = c p + z
    {.vectors = 3, .updates = 2, .sums = 0,
     .update = {{UpdateKind::add_scaled, 0, 1}, {UpdateKind::scale_add, 1, 2}},
     .sum = {}, .passing = 0b101},
};
// clang-format on
constexpr int count_of_shapes = sizeof(shapes) / sizeof(shapes[0]);

/// A program whose usual rounds have a shape, or not. A POD, so that it may be a kernel's argument.
struct Known {
  static constexpr int max_slots = 6;

  std::int32_t shape = -1;
  std::uint32_t heeded = 0;  ///< actions that the program looks at
  std::uint32_t usual = 0;   ///< of these, those of a usual round
  std::int32_t slots = 0;
  std::uint8_t flags[2] = {};  ///< whether it looks at skip_preconditioner, at the second one
  std::uint8_t vector[Shape::max_vectors] = {};
  std::uint8_t coefficient[Shape::max_updates] = {};
  std::uint8_t slot[max_slots] = {};
  std::uint8_t sum_of[max_slots] = {};  ///< the shape's sum that a slot gets

  SHARDSOLVE_HOST_DEVICE bool is_usual(const State& state) const {
    return shape >= 0 && (state.actions & heeded) == usual &&
           (flags[0] == 0 || state.skip_preconditioner == 0) &&
           (flags[1] == 0 || state.skip_second_preconditioner == 0);
  }
};

/// Finds the shape of a program with these vectors. Two numbers of one vector are one.
template <class T>
class ShapeFinder {
 public:
  ShapeFinder(const Program& program, const Vectors<T>& vectors)
      : program_(program), vectors_(vectors) {}

  Known find() {
    if (program_.usual == 0 || !take_updates() || !take_sums()) {
      return {};
    }
    const auto* const found =
        std::find_if(std::begin(shapes), std::end(shapes),
                     [&](const Shape& shape) { return shape.does_the_same_as(shape_); });
    if (found == std::end(shapes)) {
      return {};
    }
    known_.shape = static_cast<std::int32_t>(found - std::begin(shapes));
    known_.usual = known_.heeded & program_.usual;
    return known_;
  }

 private:
  bool take_updates() {
    for (int u = 0; u < program_.updates; ++u) {
      const krylov::Update& update = program_.update[u];
      known_.heeded |= update.actions;
      if ((update.actions & program_.usual) == 0) {
        continue;
      }
      Shape::Update one{.kind = update.kind};
      if (update.kind > UpdateKind::divide || shape_.updates == Shape::max_updates) {
        return false;
      }
      if (one.kind == UpdateKind::divide && vectors_.base[update.b] == nullptr) {
        one.kind = UpdateKind::copy;
      }
      if (update.unless != Unless::never) {
        known_.flags[update.unless == Unless::skip_preconditioner ? 0 : 1] = 1;
      }
      one.target = number_of(update.target);
      one.a = one.reads_a() ? number_of(update.a) : 0;
      one.b = one.reads_b() ? number_of(update.b) : 0;
      known_.coefficient[shape_.updates] = update.coefficient;
      shape_.update[shape_.updates++] = one;
    }
    return shape_.vectors <= Shape::max_vectors;
  }
  bool take_sums() {
    for (int d = 0; d < program_.dots; ++d) {
      const Dot& dot = program_.dot[d];
      known_.heeded |= dot.actions;
      if ((dot.actions & program_.usual) == 0) {
        continue;
      }
      const Shape::Sum one{number_of(dot.x), number_of(dot.y)};
      auto* const end = shape_.sum + shape_.sums;
      const auto* const same = std::find(shape_.sum, end, one);
      if (dot.is_columns != 0 || known_.slots == Known::max_slots ||
          (same == end && shape_.sums == Shape::max_sums)) {
        return false;
      }
      known_.slot[known_.slots] = static_cast<std::uint8_t>(dot.slot);
      known_.sum_of[known_.slots++] = static_cast<std::uint8_t>(same - shape_.sum);
      if (same == end) {
        shape_.sum[shape_.sums++] = one;
      }
    }
    return shape_.vectors <= Shape::max_vectors;
  }

  int number_of(int vector) {
    for (int v = 0; v < std::min(shape_.vectors, Shape::max_vectors); ++v) {
      const int other = known_.vector[v];
      if (other == vector ||
          (vectors_.base[other] == vectors_.base[vector] &&
           vectors_.column[other] == Column::none && vectors_.column[vector] == Column::none)) {
        return v;
      }
    }
    if (shape_.vectors < Shape::max_vectors) {
      known_.vector[shape_.vectors] = static_cast<std::uint8_t>(vector);
    }
    return shape_.vectors++;
  }

  const Program& program_;
  const Vectors<T>& vectors_;
  Shape shape_;
  Known known_;
};

}  // namespace shardsolve::krylov
