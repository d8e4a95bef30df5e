/// Three laws of elasticity: the stress P for a deformation gradient F, and dP/dF.
#pragma once

#include <array>
#include <cstdint>

namespace beam {

using Tensor2 = std::array<std::array<double, 3>, 3>;
using Tensor4 = std::array<std::array<Tensor2, 3>, 3>;

enum class Law : std::uint8_t {
  linear,               ///< P = S(e), e = (F + F^T) / 2 - I
  st_venant_kirchhoff,  ///< P = F S(E), E = (F^T F - I) / 2
  faulty,               ///< P = S(E): forgets the factor F, so that the tangent is not symmetric
};

/// Where S(E) = lambda tr(E) I + 2 mu E, with Lamé's constants.
struct Material {
  Law law = Law::linear;
  double lambda = 0.0;
  double mu = 0.0;
};

/// Of Young's modulus and Poisson's ratio.
inline Material elastic(Law law, double young, double poisson) {
  return {law, young * poisson / ((1 + poisson) * (1 - 2 * poisson)), young / (2 * (1 + poisson))};
}

inline double delta(int i, int j) { return i == j ? 1.0 : 0.0; }

/// The strain that S is a function of.
inline Tensor2 strain(Law law, const Tensor2& f) {
  Tensor2 e;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      if (law == Law::linear) {
        e[i][j] = 0.5 * (f[i][j] + f[j][i]) - delta(i, j);
      } else {
        e[i][j] = 0.5 * (f[0][i] * f[0][j] + f[1][i] * f[1][j] + f[2][i] * f[2][j] - delta(i, j));
      }
    }
  }
  return e;
}

inline double trace(const Tensor2& e) { return e[0][0] + e[1][1] + e[2][2]; }

/// S(E).
inline Tensor2 second_stress(const Material& material, const Tensor2& e) {
  Tensor2 s;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      s[i][j] = material.lambda * trace(e) * delta(i, j) + 2 * material.mu * e[i][j];
    }
  }
  return s;
}

/// Energy of a unit volume. The faulty law has none: this is then that of P = F S.
inline double energy_density(const Material& material, const Tensor2& e) {
  double squares = 0.0;
  for (const auto& row : e) {
    for (const double entry : row) {
      squares += entry * entry;
    }
  }
  return 0.5 * material.lambda * trace(e) * trace(e) + material.mu * squares;
}

/// P: force on a unit area of the body at rest, P[i][J] along axis i on a face normal to J.
inline Tensor2 stress(const Material& material, const Tensor2& f) {
  const Tensor2 s = second_stress(material, strain(material.law, f));
  if (material.law != Law::st_venant_kirchhoff) return s;
  Tensor2 p{};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) {
        p[i][j] += f[i][k] * s[k][j];
      }
    }
  }
  return p;
}

/// d S[i][j] / d F[k][l].
inline double second_stress_slope(const Material& material, const Tensor2& f, int i, int j, int k,
                                  int l) {
  if (material.law == Law::linear) {
    return material.lambda * delta(i, j) * delta(k, l) +
           material.mu * (delta(i, k) * delta(j, l) + delta(i, l) * delta(j, k));
  }
  return material.lambda * delta(i, j) * f[k][l] +
         material.mu * (delta(i, l) * f[k][j] + delta(j, l) * f[k][i]);
}

/// The consistent tangent: [i][j][k][l] is d P[i][j] / d F[k][l].
inline Tensor4 stress_slope(const Material& material, const Tensor2& f) {
  const Tensor2 s = second_stress(material, strain(material.law, f));
  Tensor4 slope{};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) {
        for (int l = 0; l < 3; ++l) {
          double& entry = slope[i][j][k][l];
          if (material.law != Law::st_venant_kirchhoff) {
            entry = second_stress_slope(material, f, i, j, k, l);
            continue;
          }
          entry = delta(i, k) * s[l][j];
          for (int m = 0; m < 3; ++m) {
            entry += f[i][m] * second_stress_slope(material, f, m, j, k, l);
          }
        }
      }
    }
  }
  return slope;
}

}  // namespace beam
