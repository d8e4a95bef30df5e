#include "fbpinn/windows.hpp"

#include <algorithm>
#include <vector>

namespace shardsolve::fbpinn {

template <class T>
void inverse_window_sums(const Boxes& boxes, const JetSet& set, const Pairs& pairs, const T* points,
                         std::int64_t first, std::int64_t last, T* inverses) {
  const int size = set.size();
  const std::int64_t of_level = pairs.points * size;
  const int axes = set.axes();
  T center[max_axes];
  T half_width[max_axes];
  T jet[max_derivatives];
  for (std::int64_t p = first; p < last; ++p) {
    for (int level = 0; level < boxes.levels(); ++level) {
      std::fill_n(inverses + level * of_level + p * size, size, T{0});
    }
    for (const std::int32_t pair : pairs.pairs_of(p)) {
      const std::int64_t box = pairs.box[static_cast<std::size_t>(pair)];
      std::transform(boxes.center(box), boxes.center(box) + axes, center,
                     [](double x) { return static_cast<T>(x); });
      std::transform(boxes.half_width(box), boxes.half_width(box) + axes, half_width,
                     [](double x) { return static_cast<T>(x); });
      window_jet(set, points + p * axes, center, half_width, jet);
      T* const sum = inverses + boxes.level(box) * of_level + p * size;
      for (int i = 0; i < size; ++i) {
        sum[i] += jet[i];
      }
    }
    for (int level = 0; level < boxes.levels(); ++level) {
      invert_jet(set, inverses + level * of_level + p * size);
    }
  }
}

template void inverse_window_sums(const Boxes&, const JetSet&, const Pairs&, const float*,
                                  std::int64_t, std::int64_t, float*);
template void inverse_window_sums(const Boxes&, const JetSet&, const Pairs&, const double*,
                                  std::int64_t, std::int64_t, double*);

}  // namespace shardsolve::fbpinn
