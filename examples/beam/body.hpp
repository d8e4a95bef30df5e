/// Mass, loads, internal forces and tangent of an elastic body, added up from its elements.
#pragma once

#include "box_mesh.hpp"
#include "csr.hpp"
#include "element.hpp"
#include "material.hpp"

#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace beam {

/// An elastic body of hexahedra. Vectors have an entry for each unknown of the mesh; matrices share
/// one pattern, in which nodes of one element are coupled along all axes.
class Body {
 public:
  Body(const BoxMesh& mesh, const Material& material, double density)
      : mesh_(mesh), material_(material), density_(density), tables_(mesh.element_edges()) {
    make_pattern();
    find_places();
  }

  const BoxMesh& mesh() const { return mesh_; }
  const Material& material() const { return material_; }

  /// A matrix of zeros.
  const Csr& pattern() const { return pattern_; }

  /// The consistent mass matrix: M[a][b] = density * integral of N_a N_b, alike along each axis.
  Csr mass() const {
    std::array<std::array<double, nodes_per_element>, nodes_per_element> of_element{};
    for (int point = 0; point < gauss_points; ++point) {
      const auto& n = tables_.values(point);
      const double mass = density_ * tables_.volume(point);
      for (int a = 0; a < nodes_per_element; ++a) {
        for (int b = 0; b < nodes_per_element; ++b) {
          of_element[a][b] += mass * n[a] * n[b];
        }
      }
    }
    Csr matrix = pattern_;
    for (std::size_t element = 0; element < mesh_.elements().size(); ++element) {
      for_each_block(element, [&](int a, int b, int axis, std::int64_t entry) {
        matrix.values[entry + axis] += of_element[a][b];
      });
    }
    return matrix;
  }

  /// Nodal forces of a force on each unit of volume, the same everywhere.
  Vector load(const Point& force) const {
    Vector load(mesh_.unknowns(), 0.0);
    for (const BoxMesh::Element& nodes : mesh_.elements()) {
      for (int point = 0; point < gauss_points; ++point) {
        for (int a = 0; a < nodes_per_element; ++a) {
          const double share = tables_.volume(point) * tables_.values(point)[a];
          for (int axis = 0; axis < 3; ++axis) {
            load[3 * nodes[a] + axis] += share * force[axis];
          }
        }
      }
    }
    return load;
  }

  /// force += f(u), f_a = integral of P grad N_a.
  void add_internal_force(const Vector& u, Vector& force) const {
    for (const BoxMesh::Element& nodes : mesh_.elements()) {
      const ElementVector ue = gather(nodes, u);
      ElementVector fe{};
      for (int point = 0; point < gauss_points; ++point) {
        const Tensor2 p = stress(material_, deformation_gradient(ue, point));
        const auto& gradients = tables_.gradients(point);
        for (int i = 0; i < 3; ++i) {
          for (int j = 0; j < 3; ++j) {
            const double factor = tables_.volume(point) * p[i][j];
            for (int a = 0; a < nodes_per_element; ++a) {
              fe[i][a] += factor * gradients[j][a];
            }
          }
        }
      }
      for (int a = 0; a < nodes_per_element; ++a) {
        for (int i = 0; i < 3; ++i) {
          force[3 * nodes[a] + i] += fe[i][a];
        }
      }
    }
  }

  /// The elastic energy of u.
  double elastic_energy(const Vector& u) const {
    double energy = 0.0;
    for (const BoxMesh::Element& nodes : mesh_.elements()) {
      const ElementVector ue = gather(nodes, u);
      for (int point = 0; point < gauss_points; ++point) {
        const Tensor2 e = strain(material_.law, deformation_gradient(ue, point));
        energy += tables_.volume(point) * energy_density(material_, e);
      }
    }
    return energy;
  }

  /// matrix += factor df/du at u, to a matrix of this pattern.
  void add_tangent(double factor, const Vector& u, Csr& matrix) const {
    ElementMatrix of_element;
    for (std::size_t element = 0; element < mesh_.elements().size(); ++element) {
      of_element = {};
      const ElementVector ue = gather(mesh_.elements()[element], u);
      for (int point = 0; point < gauss_points; ++point) {
        add_stiffness(ue, point, of_element);
      }
      for_each_block(element, [&](int a, int b, int i, std::int64_t entry) {
        for (int k = 0; k < 3; ++k) {
          matrix.values[entry + k] += factor * of_element[a][i][k][b];
        }
      });
    }
  }

 private:
  using OfNodes = ElementTables::OfNodes;
  using ElementVector = std::array<OfNodes, 3>;  // [axis][node]
  // [node a][axis i][axis k][node b]: long loops run over b.
  using ElementMatrix = std::array<std::array<std::array<OfNodes, 3>, 3>, nodes_per_element>;

  static ElementVector gather(const BoxMesh::Element& nodes, const Vector& u) {
    ElementVector of_element;
    for (int axis = 0; axis < 3; ++axis) {
      for (int a = 0; a < nodes_per_element; ++a) {
        of_element[axis][a] = u[3 * nodes[a] + axis];
      }
    }
    return of_element;
  }

  // F = I + sum of u_a grad N_a.
  Tensor2 deformation_gradient(const ElementVector& u, int point) const {
    Tensor2 f;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        const OfNodes& gradient = tables_.gradients(point)[j];
        f[i][j] = delta(i, j);
        for (int a = 0; a < nodes_per_element; ++a) {
          f[i][j] += u[i][a] * gradient[a];
        }
      }
    }
    return f;
  }

  // Adds the share of a Gauss point: volume * grad N_a : dP/dF : grad N_b.
  void add_stiffness(const ElementVector& u, int point, ElementMatrix& stiffness) const {
    const Tensor4 slope = stress_slope(material_, deformation_gradient(u, point));
    const auto& gradients = tables_.gradients(point);
    for (int a = 0; a < nodes_per_element; ++a) {
      for (int i = 0; i < 3; ++i) {
        for (int k = 0; k < 3; ++k) {
          std::array<double, 3> row{};  // volume * (grad N_a : dP/dF) along l
          for (int l = 0; l < 3; ++l) {
            for (int j = 0; j < 3; ++j) {
              row[l] += gradients[j][a] * slope[i][j][k][l];
            }
            row[l] *= tables_.volume(point);
          }
          for (int b = 0; b < nodes_per_element; ++b) {
            stiffness[a][i][k][b] +=
                row[0] * gradients[0][b] + row[1] * gradients[1][b] + row[2] * gradients[2][b];
          }
        }
      }
    }
  }

  void make_pattern() {
    std::vector<std::set<std::int64_t>> neighbours(mesh_.nodes());
    for (const BoxMesh::Element& nodes : mesh_.elements()) {
      for (const std::int64_t a : nodes) {
        neighbours[a].insert(nodes.begin(), nodes.end());
      }
    }
    for (const std::set<std::int64_t>& nodes : neighbours) {
      for (int row_axis = 0; row_axis < 3; ++row_axis) {
        for (const std::int64_t node : nodes) {
          for (int axis = 0; axis < 3; ++axis) {
            pattern_.column_indices.push_back(3 * node + axis);
          }
        }
        pattern_.row_pointers.push_back(std::ssize(pattern_.column_indices));
      }
    }
    pattern_.values.assign(pattern_.column_indices.size(), 0.0);
  }

  void find_places() {
    for (const BoxMesh::Element& nodes : mesh_.elements()) {
      std::vector<std::int64_t>& places = places_.emplace_back();
      for (const std::int64_t a : nodes) {
        for (const std::int64_t b : nodes) {
          places.push_back(entry_number(pattern_, 3 * a, 3 * b) - pattern_.row_pointers[3 * a]);
        }
      }
    }
  }

  // Calls use(a, b, i, entry): row i of the 3 x 3 block of nodes a, b begins at that entry.
  template <class Use>
  void for_each_block(std::size_t element, const Use& use) const {
    const BoxMesh::Element& nodes = mesh_.elements()[element];
    for (int a = 0; a < nodes_per_element; ++a) {
      for (int i = 0; i < 3; ++i) {
        const std::int64_t row_begin = pattern_.row_pointers[3 * nodes[a] + i];
        for (int b = 0; b < nodes_per_element; ++b) {
          use(a, b, i, row_begin + places_[element][a * nodes_per_element + b]);
        }
      }
    }
  }

  BoxMesh mesh_;
  Material material_;
  double density_;
  ElementTables tables_;
  Csr pattern_;
  // Of each element: how far from the begin of its row the block of nodes a, b lies, at 27 a + b.
  std::vector<std::vector<std::int64_t>> places_;
};

}  // namespace beam
