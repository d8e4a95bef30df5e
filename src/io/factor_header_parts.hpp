/// What the headers of all kinds of factor files say in the same way.
#pragma once

#include "io/factor_file_header.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/scaled.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::io {

/// How a factor's n columns are cut: "n", "boundaries" and "tile" of its attributes, and "dtype".
struct FactorCut {
  Dtype dtype = Dtype::float64;
  std::vector<std::int64_t> boundaries;  ///< of the slabs; one more than ranks
  std::int64_t tile = 1;

  std::int64_t size() const { return boundaries.back(); }
  std::int64_t ranks() const { return static_cast<std::int64_t>(boundaries.size()) - 1; }
  std::int64_t width(std::int64_t rank) const;
};

/// The section of a rank's slab: "slab 0".
std::string slab_name(std::int64_t rank);

/// The attributes that a cut is.
Json attributes_of(const FactorCut& cut);
/// The other way; throws JsonFault.
FactorCut cut_of(const JsonObject& attributes);

/// A number as text that gives back its bits: {"fraction": "0x1.8p-1", "exponent": 3}.
Json to_json(const Scaled& norm);
/// The other way, of a norm: finite, not negative; throws JsonFault.
Scaled scaled_of(const JsonObject& norm);

/// A finite number as hexadecimal text, "-0x1.8p+1".
std::string hexadecimal(double number);
/// The other way; throws JsonFault.
double hexadecimal_of(const JsonObject& attributes, std::string_view key);

/// Throws Error(unsupported) unless the header is of this kind.
void require_kind(const FactorHeader& header, std::string_view kind, std::string_view wanted,
                  const std::string& path);
/// Throws Error(unsupported) if there is another attribute: it may change what the sections mean.
void require_known_attributes(const JsonObject& attributes,
                              std::initializer_list<std::string_view> known,
                              const FactorHeader& header, const std::string& path);
/// Throws JsonFault unless each of `expected` is in `header`, of its dtype, shape and bytes.
void require_sections(const std::vector<FactorSection>& expected, const FactorHeader& header);

}  // namespace shardsolve::io
