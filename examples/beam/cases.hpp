/// The cantilever: its shape, its load, the cases that are run, and what they have to give.
#pragma once

#include "body.hpp"
#include "dynamics.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace beam {

inline constexpr Box cantilever{{0.0, -0.05, -0.1}, {8.0, 0.05, 0.1}};  ///< clamped at x = 0
inline constexpr Counts reference_divisions{8, 2, 2};
inline constexpr Point tip{8.0, 0.0, 0.0};
inline constexpr double young = 210e3;
inline constexpr double poisson = 0.3;
inline constexpr double density = 7.8e-3;
inline constexpr double load_end = 0.2;  ///< the load grows until then, and is gone after it
inline constexpr double whole_time = 2.0;
inline constexpr std::int64_t reference_steps = 400;

/// The force on a unit of volume at time t.
inline Point body_force(double t) {
  const double rounding = 1e-12;
  const double share = t <= load_end + rounding ? t / load_end : 0.0;
  return {0.0, share, 1.5 * share};
}

/// Displacements of the tip along y and z.
struct Tip {
  double y = 0.0;
  double z = 0.0;
};

/// The same of the mesh and the steps of reference, computed with LU factors.
struct Reference {
  std::array<Tip, 3> tips;  ///< at reference_times
  Tip largest;
};

inline constexpr std::array<double, 3> reference_times{0.2, 1.0, 2.0};
inline constexpr double tip_tolerance = 1e-5;
inline constexpr double largest_tolerance = 6e-5;  ///< the same, of numbers rounded to four digits

struct Case {
  std::string name;
  std::string title;
  Law law = Law::linear;
  Scheme scheme;
  Damping damping;
  std::optional<Reference> reference;
};

inline const std::vector<Case>& cases() {
  static const Scheme newmark{};
  static const Scheme alpha{.alpha_f = 0.4, .alpha_m = 0.2};
  static const std::vector<Case> all{
      {"linear",
       "linear, Newmark, Rayleigh damping 1e-4, 1e-4",
       Law::linear,
       newmark,
       {.mass = 1e-4, .stiffness = 1e-4},
       Reference{{{{1.124644, 1.134534}, {1.814813, 1.296101}, {0.411043, -0.613130}}},
                 {2.3012, 1.3530}}},
      {"linear-undamped", "linear, Newmark, undamped", Law::linear, newmark, {}, {}},
      {"stvk-newmark",
       "P = F S, Newmark",
       Law::st_venant_kirchhoff,
       newmark,
       {},
       Reference{{{{1.114437, 1.121934}, {1.902945, 1.282138}, {-0.052077, -0.625837}}},
                 {2.2932, 1.3281}}},
      {"stvk-alpha",
       "P = F S, generalised-alpha",
       Law::st_venant_kirchhoff,
       alpha,
       {},
       Reference{{{{1.114497, 1.121857}, {1.879120, 1.262752}, {-0.058279, -0.596590}}},
                 {2.2567, 1.3122}}},
      {"faulty-alpha",
       "P = S, generalised-alpha",
       Law::faulty,
       alpha,
       {},
       Reference{{{{1.124082, 1.133686}, {1.837608, 1.248184}, {0.137522, -0.346698}}},
                 {2.2539, 1.3320}}},
  };
  return all;
}

/// Throws std::invalid_argument if there is none of that name.
inline const Case& case_named(const std::string& name) {
  for (const Case& one : cases()) {
    if (one.name == name) return one;
  }
  throw std::invalid_argument("there is no case '" + name + "'");
}

}  // namespace beam
