/// A box cut into equal hexahedra of 27 nodes (Q2).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace beam {

using Point = std::array<double, 3>;
using Counts = std::array<std::int64_t, 3>;  ///< one number along each axis

inline constexpr int nodes_per_element = 27;

struct Box {
  Point low;
  Point high;
};

/// Nodes are numbered with x slowest and z fastest, so that the matrices of a long beam have a
/// narrow band; the 27 nodes of an element likewise.
class BoxMesh {
 public:
  using Element = std::array<std::int64_t, nodes_per_element>;  ///< numbers of its nodes

  /// `divisions`: elements along each axis.
  /// Throws std::invalid_argument unless all are at least 1.
  BoxMesh(const Box& box, const Counts& divisions) : box_(box), divisions_(divisions) {
    for (const std::int64_t count : divisions) {
      if (count < 1) {
        throw std::invalid_argument("a mesh has at least 1 element along each axis, not " +
                                    std::to_string(count));
      }
    }
    make_elements();
  }

  const std::vector<Element>& elements() const { return elements_; }
  Counts nodes_along() const {
    return {2 * divisions_[0] + 1, 2 * divisions_[1] + 1, 2 * divisions_[2] + 1};
  }
  std::int64_t nodes() const {
    const Counts along = nodes_along();
    return along[0] * along[1] * along[2];
  }
  /// Three displacements a node: that of node k along axis d has the number 3 k + d.
  std::int64_t unknowns() const { return 3 * nodes(); }

  /// Lengths of the edges of an element.
  Point element_edges() const {
    Point edges;
    for (int axis = 0; axis < 3; ++axis) {
      edges[axis] = (box_.high[axis] - box_.low[axis]) / static_cast<double>(divisions_[axis]);
    }
    return edges;
  }

  Point position(std::int64_t node) const {
    const Counts along = nodes_along();
    const Counts place{node / (along[1] * along[2]), node / along[2] % along[1], node % along[2]};
    const Point edges = element_edges();
    Point position;
    for (int axis = 0; axis < 3; ++axis) {
      position[axis] = box_.low[axis] + 0.5 * edges[axis] * static_cast<double>(place[axis]);
    }
    return position;
  }

  /// The node that is nearest to a point.
  std::int64_t nearest_node(const Point& point) const {
    const Counts along = nodes_along();
    const Point edges = element_edges();
    Counts place;
    for (int axis = 0; axis < 3; ++axis) {
      const double steps = 2.0 * (point[axis] - box_.low[axis]) / edges[axis];
      place[axis] = std::clamp<std::int64_t>(std::llround(steps), 0, along[axis] - 1);
    }
    return number(place[0], place[1], place[2]);
  }

 private:
  std::int64_t number(std::int64_t x, std::int64_t y, std::int64_t z) const {
    const Counts along = nodes_along();
    return (x * along[1] + y) * along[2] + z;
  }

  void make_elements() {
    for (std::int64_t x = 0; x < divisions_[0]; ++x) {
      for (std::int64_t y = 0; y < divisions_[1]; ++y) {
        for (std::int64_t z = 0; z < divisions_[2]; ++z) {
          Element& element = elements_.emplace_back();
          for (int node = 0; node < nodes_per_element; ++node) {
            element[node] = number(2 * x + node / 9, 2 * y + node / 3 % 3, 2 * z + node % 3);
          }
        }
      }
    }
  }

  Box box_;
  Counts divisions_;
  std::vector<Element> elements_;
};

}  // namespace beam
