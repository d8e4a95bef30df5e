// What GPUs have code of their own for: cg's programs in rounds that are as usual.

#include "krylov/cg_rounds.hpp"
#include "runtime/krylov/part.hpp"
#include "runtime/krylov/shape.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::krylov {
namespace {

enum class Preconditioner : std::uint8_t { none, diagonal, product };

/// Of each program that a round of cg is put together to.
std::vector<Known> known_of_cg(Preconditioner m) {
  const MethodTable table = cg::rounds();
  std::array<double, Vectors<double>::most> memory{};
  Vectors<double> vectors;
  for (int v = 0; v < table.vectors; ++v) {
    vectors.base[v] = &memory.at(static_cast<std::size_t>(v));
  }
  vectors.base[cg::kept] = vectors.base[cg::z];
  if (m == Preconditioner::diagonal) {
    vectors.base[Vectors<double>::diagonal] = &memory.back();
  } else if (m == Preconditioner::none) {
    vectors.base[table.identity.output] = vectors.base[table.identity.input];
  }
  std::vector<Known> found;
  Part part;
  const auto flush = [&] {
    for (int p = 0; p < part.programs; ++p) {
      found.push_back(ShapeFinder<double>(part.program[p], vectors).find());
    }
    part = {};
  };
  for (const Stage& stage : table.stages) {
    if (stage.kind == Stage::Kind::run) {
      EXPECT_TRUE(part.add_program(stage.program, stage.reduction));
    } else if (stage.kind == Stage::Kind::reduce) {
      EXPECT_TRUE(part.add_end(stage.reduction));
    } else if (stage.kind == Stage::Kind::precondition && m == Preconditioner::diagonal) {
      EXPECT_TRUE(part.add_division(stage.input, stage.output, unless(stage.skip)));
    } else if (stage.kind == Stage::Kind::multiply || m == Preconditioner::product) {
      flush();
    }
  }
  flush();
  return found;
}

TEST(KrylovShapes, ProgramsOfCg_AreKnown) {
  const auto shapes_of = [](Preconditioner m) {
    std::vector<int> numbers;
    for (const Known& known : known_of_cg(m)) {
      numbers.push_back(known.shape);
    }
    return numbers;
  };
  EXPECT_EQ(shapes_of(Preconditioner::none), (std::vector{4, 0, 1}));
  EXPECT_EQ(shapes_of(Preconditioner::diagonal), (std::vector{4, 0, 2}));
  EXPECT_EQ(shapes_of(Preconditioner::product), (std::vector{4, 0, 1, 3}));
}

TEST(KrylovShapes, RoundsThatAskForMore_AreNotUsual) {
  State state;
  state.actions = act_always | act_collect | act_next_direction;
  const Known direction = known_of_cg(Preconditioner::diagonal).front();
  EXPECT_TRUE(direction.is_usual(state));
  state.actions |= act_iterate;  // no update of this program heeds that
  EXPECT_TRUE(direction.is_usual(state));
  state.actions |= act_save_best;
  EXPECT_FALSE(direction.is_usual(state));
  state.actions = act_always | act_advance;
  const Known advance = known_of_cg(Preconditioner::diagonal).back();
  EXPECT_TRUE(advance.is_usual(state));
  state.skip_preconditioner = 1;
  EXPECT_FALSE(advance.is_usual(state));
}

TEST(KrylovShapes, SumsOfTheSameVectors_AreOne) {
  const Known advance = known_of_cg(Preconditioner::none).back();
  ASSERT_EQ(advance.slots, 3);  // <r, r>, <r, z>, <z, z>, where z is r
  EXPECT_EQ(advance.sum_of[1], advance.sum_of[0]);
  EXPECT_EQ(advance.sum_of[2], advance.sum_of[0]);
}

TEST(KrylovShapes, OtherPrograms_AreNotKnown) {
  std::array<double, 3> memory{};
  Vectors<double> vectors;
  for (int v = 0; v < 3; ++v) {
    vectors.base[v] = &memory.at(static_cast<std::size_t>(v));
  }
  const Program sum = Program{.name = "sum"}.sum({act_always, 0, 1, 0, 0});
  EXPECT_LT(ShapeFinder<double>(sum, vectors).find().shape, 0);  // nothing is usual
  Program two = sum;
  two.usually(act_always);
  EXPECT_LT(ShapeFinder<double>(two, vectors).find().shape, 0);
  Program columns = Program{.name = "columns"}.sum({act_always, 0, 1, 1, 0});
  columns.usually(act_always);
  EXPECT_LT(ShapeFinder<double>(columns, vectors).find().shape, 0);
}

}  // namespace
}  // namespace shardsolve::krylov
