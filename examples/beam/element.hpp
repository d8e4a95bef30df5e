/// Shape functions of the 27-node hexahedron at its 27 Gauss points.
#pragma once

#include "box_mesh.hpp"

#include <array>
#include <cmath>

namespace beam {

inline constexpr int gauss_points = 27;

/// The three quadratic shape functions on [-1, 1], nodes -1, 0, 1, or their derivatives, at s.
inline Point quadratic_values(double s) {
  return {0.5 * s * (s - 1), 1 - s * s, 0.5 * s * (s + 1)};
}
inline Point quadratic_slopes(double s) { return {s - 0.5, -2 * s, s + 0.5}; }

/// What integrals over an element need. All elements of a BoxMesh have the same edges, along the
/// axes, and so the same tables.
class ElementTables {
 public:
  explicit ElementTables(const Point& edges) {
    const double root = std::sqrt(0.6);
    const Point points{-root, 0.0, root};
    const Point weights{5.0 / 9, 8.0 / 9, 5.0 / 9};
    for (int point = 0; point < gauss_points; ++point) {
      const std::array<int, 3> at{point / 9, point / 3 % 3, point % 3};
      volumes_[point] = 1.0;
      std::array<Point, 3> value;  // of each axis, at this point
      std::array<Point, 3> slope;
      for (int axis = 0; axis < 3; ++axis) {
        // An edge has length 2 in the coordinates of the shape functions.
        volumes_[point] *= weights[at[axis]] * edges[axis] / 2;
        value[axis] = quadratic_values(points[at[axis]]);
        slope[axis] = quadratic_slopes(points[at[axis]]);
        for (double& s : slope[axis]) {
          s *= 2 / edges[axis];
        }
      }
      for (int node = 0; node < nodes_per_element; ++node) {
        const int x = node / 9;
        const int y = node / 3 % 3;
        const int z = node % 3;
        values_[point][node] = value[0][x] * value[1][y] * value[2][z];
        gradients_[point][0][node] = slope[0][x] * value[1][y] * value[2][z];
        gradients_[point][1][node] = value[0][x] * slope[1][y] * value[2][z];
        gradients_[point][2][node] = value[0][x] * value[1][y] * slope[2][z];
      }
    }
  }

  using OfNodes = std::array<double, nodes_per_element>;

  /// The share of a Gauss point in the volume of the element.
  double volume(int point) const { return volumes_[point]; }
  /// Shape functions of all nodes.
  const OfNodes& values(int point) const { return values_[point]; }
  /// Their derivatives along each axis.
  const std::array<OfNodes, 3>& gradients(int point) const { return gradients_[point]; }

 private:
  std::array<double, gauss_points> volumes_;
  std::array<OfNodes, gauss_points> values_;
  std::array<std::array<OfNodes, 3>, gauss_points> gradients_;
};

}  // namespace beam
