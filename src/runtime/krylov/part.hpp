/// What a rank does between two products by itself: programs, and the ends of reductions that need
/// nothing of other ranks. A POD, so that it may be a kernel's argument.
#pragma once

#include "runtime/krylov/program.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::krylov {

struct Part {
  static constexpr int max_programs = 4;
  static constexpr int max_items = 8;

  struct Item {
    std::int32_t program = -1;  ///< or -1: the end of the reduction
    std::int32_t reduction = 0;
  };
  int items = 0;
  int programs = 0;
  Item item[max_items];
  Program program[max_programs];

  bool empty() const { return items == 0; }

  /// Each adds something behind what is there, to the last program if that is as good. False, and
  /// nothing is added, if there is no room: then what is there has to be run first.
  bool add_program(const Program& added, int reduction) {
    if (Program* const last = last_program();
        last != nullptr && may_join(*last, added) && item[items - 1].reduction == reduction) {
      std::copy_n(added.update, added.updates, last->update + last->updates);
      std::copy_n(added.dot, added.dots, last->dot + last->dots);
      last->updates += added.updates;
      last->dots += added.dots;
      last->usual |= added.usual;
      return true;
    }
    if (items == max_items || programs == max_programs) {
      return false;
    }
    program[programs] = added;
    item[items++] = {programs++, reduction};
    return true;
  }
  /// output = diagonal^-1 input, or input if there is no diagonal.
  bool add_division(int input, int output, Unless unless) {
    const Program division = Program{.name = "jacobi", .usual = act_always}.then(
        {act_always, UpdateKind::divide, static_cast<std::uint8_t>(output),
         static_cast<std::uint8_t>(input), static_cast<std::uint8_t>(Vectors<double>::diagonal), 0,
         unless});
    const int reduction = items > 0 ? item[items - 1].reduction : 0;
    return add_program(division, reduction);
  }
  bool add_end(int reduction) {
    if (items == max_items) {
      return false;
    }
    item[items++] = {-1, reduction};
    return true;
  }

 private:
  Program* last_program() {
    return items > 0 && item[items - 1].program >= 0 ? &program[item[items - 1].program] : nullptr;
  }
  /// Whether all updates may come before all sums.
  static bool may_join(const Program& first, const Program& second) {
    const auto is_summed = [&](int vector) {
      return std::any_of(first.dot, first.dot + first.dots,
                         [&](const Dot& dot) { return dot.x == vector || dot.y == vector; });
    };
    const bool is_apart =
        std::none_of(second.update, second.update + second.updates,
                     [&](const Update& update) { return is_summed(update.target); });
    // A column of a basis has numbers besides its own.
    const bool over_columns = std::any_of(first.dot, first.dot + first.dots,
                                          [](const Dot& dot) { return dot.is_columns != 0; });
    return is_apart && (!over_columns || second.updates == 0) &&
           first.updates + second.updates <= Program::most &&
           first.dots + second.dots <= Program::most;
  }
};

}  // namespace shardsolve::krylov
