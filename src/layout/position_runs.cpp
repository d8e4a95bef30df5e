#include "layout/position_runs.hpp"

#include <algorithm>

namespace shardsolve::layout {
namespace {

/// The step that eliminates a position; Step(steps()) for the end.
Step step_of(const SlabLayout& layout, Position position) {
  Step first(0);
  Step last(layout.steps());
  while (first < last) {
    const Step middle = first + (last - first) / 2;
    if (layout.eliminated(middle + 1) > position.value()) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

}  // namespace

std::vector<RowRun> rows_from(const SlabLayout& layout, Position first) {
  const Step step = step_of(layout, first);
  std::vector<RowRun> runs = layout.rows_from(step);
  if (step.value() == layout.steps()) {
    return runs;
  }
  const std::int64_t begun = first.value() - layout.eliminated(step);
  const std::int64_t owner = layout.owner(step);
  for (RowRun& run : runs) {
    if (run.rank == owner) {
      run.rows.begin = run.rows.begin + begun;
    } else if (run.rank > owner) {
      run.packed -= begun;
    }
  }
  return runs;
}

std::vector<PanelRun> panel_order(const SlabLayout& layout, Position first, std::int64_t leading) {
  const std::vector<RowRun> all = rows_from(layout, first);
  std::vector<PanelRun> order;
  std::int64_t place = 0;
  const auto append = [&](GlobalRange rows, std::int64_t rank) {
    if (!rows.empty()) {
      const RowRun& run = all[static_cast<std::size_t>(rank)];
      order.push_back({rows, place, run.packed + (rows.begin - run.rows.begin)});
      place += rows.size();
    }
  };
  const Position end = first + leading;
  for (Step step = step_of(layout, first);
       step.value() < layout.steps() && layout.eliminated(step) < end.value(); ++step) {
    const std::int64_t before = layout.eliminated(step);
    const GlobalIndex row = layout.rows(step).begin;
    append({row + (std::max(first.value(), before) - before),
            row + (std::min(end.value(), layout.eliminated(step + 1)) - before)},
           layout.owner(step));
  }
  for (const RowRun& run : rows_from(layout, end)) {
    append(run.rows, run.rank);
  }
  return order;
}

}  // namespace shardsolve::layout
