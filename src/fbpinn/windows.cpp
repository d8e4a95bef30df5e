#include "fbpinn/windows.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::fbpinn {

namespace {

/// Windows along an axis at one point, and their derivatives. Boxes that lie in rows have the same
/// ones, so the last few are kept.
template <class T>
class WindowsAlongAxis {
 public:
  struct Window {
    T center = 0;
    T half_width = 0;
    T derivatives[max_order + 1] = {};
  };

  void begin_point(T x) {
    x_ = x;
    kept_ = 0;
    next_ = 0;
  }
  const T* derivatives(T center, T half_width, int order) {
    for (int i = 0; i < kept_; ++i) {
      if (windows_[i].center == center && windows_[i].half_width == half_width) {
        return windows_[i].derivatives;
      }
    }
    Window& window = windows_[next_];
    window.center = center;
    window.half_width = half_width;
    window_along_axis(x_, center, half_width, order, window.derivatives);
    next_ = (next_ + 1) % max_kept;
    kept_ = std::max(kept_, next_ == 0 ? max_kept : next_);
    return window.derivatives;
  }

 private:
  static constexpr int max_kept = 6;
  T x_ = 0;
  int kept_ = 0;
  int next_ = 0;
  Window windows_[max_kept];
};

}  // namespace

template <class T>
void inverse_window_sums(const Boxes& boxes, const JetSet& set, const Pairs& pairs, const T* points,
                         std::int64_t first, std::int64_t last, T* inverses) {
  const int size = set.size();
  const std::int64_t of_level = pairs.points * size;
  const int axes = set.axes();
  WindowsAlongAxis<T> windows[max_axes];
  const T* along[max_axes];
  for (std::int64_t p = first; p < last; ++p) {
    for (int level = 0; level < boxes.levels(); ++level) {
      std::fill_n(inverses + level * of_level + p * size, size, T{0});
    }
    for (int axis = 0; axis < axes; ++axis) {
      windows[axis].begin_point(points[p * axes + axis]);
    }
    for (const std::int32_t pair : pairs.pairs_of(p)) {
      const std::int64_t box = pairs.box[static_cast<std::size_t>(pair)];
      for (int axis = 0; axis < axes; ++axis) {
        along[axis] =
            windows[axis].derivatives(static_cast<T>(boxes.center(box)[axis]),
                                      static_cast<T>(boxes.half_width(box)[axis]), set.order());
      }
      T* const sum = inverses + boxes.level(box) * of_level + p * size;
      for (int i = 0; i < size; ++i) {
        sum[i] += product_along(set, i, along);
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
