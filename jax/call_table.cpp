#include "jax/call_table.hpp"

#include "jax/cholesky_calls.hpp"
#include "jax/dot_calls.hpp"
#include "jax/eigh_calls.hpp"
#include "jax/invitation.hpp"
#include "jax/krylov_calls.hpp"
#include "jax/krylov_description.hpp"
#include "jax/krylov_preconditioner_calls.hpp"
#include "jax/lu_calls.hpp"
#include "jax/qr_calls.hpp"
#include "jax/small_cholesky_calls.hpp"
#include "jax/small_lu_calls.hpp"
#include "jax/sparse_calls.hpp"
#include "jax/svd_calls.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/outcome.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace shardsolve::jax {
namespace {

/// Of every family.
const std::vector<CallRow>& call_table() {
  static const auto& rows = *new std::vector<CallRow>([] {
    std::vector<CallRow> all;
    for (const auto& family : {cholesky_calls(), eigh_calls(), dot_calls(), krylov_calls(),
                               krylov_preconditioner_calls(), sparse_calls(), lu_calls(),
                               small_cholesky_calls(), small_lu_calls(), qr_calls(), svd_calls()}) {
      all.insert(all.end(), family.begin(), family.end());
    }
    return all;
  }());
  return rows;
}

std::string_view element_name(Element element) {
  switch (element) {
    case Element::matrix:
      return "matrix";
    case Element::real:
      return "real";
    case Element::float64:
      return "float64";
    case Element::words:
      return "int32";
  }
  return "unknown";
}

nlohmann::json describe(const CallBuffer& buffer) {
  nlohmann::json shape;
  switch (buffer.kind) {
    case Kind::slab:
    case Kind::columns:
      shape = nlohmann::json::array({"w", "n"});
      break;
    case Kind::rows:
      shape = nlohmann::json::array({"w"});
      break;
    case Kind::sides:
      shape = nlohmann::json::array({"k", "w"});
      break;
    case Kind::tall:
      shape = nlohmann::json::array({"c", "w"});
      break;
    case Kind::square:
      shape = nlohmann::json::array({"c", "c"});
      break;
    case Kind::unknowns:
      shape = nlohmann::json::array({"k", "c"});
      break;
    case Kind::each_unknown:
      shape = nlohmann::json::array({"c"});
      break;
    case Kind::each_side:
      shape = nlohmann::json::array({"k"});
      break;
    case Kind::whole:
      shape = nlohmann::json::array({"n"});
      break;
    case Kind::small:
      shape = nlohmann::json::array({buffer.length});
      break;
    case Kind::any:
      shape = nlohmann::json::array();
      break;
    case Kind::vectors:
      shape = nlohmann::json::array({"vectors", "length"});
      break;
  }
  const bool turned = buffer.kind == Kind::sides || buffer.kind == Kind::columns ||
                      buffer.kind == Kind::tall || buffer.kind == Kind::square ||
                      buffer.kind == Kind::unknowns;
  return {{"name", buffer.name},
          {"element", element_name(buffer.element)},
          {"shape", shape},
          {"turned", turned}};
}

nlohmann::json describe(const CallRow& row) {
  nlohmann::json call = {{"name", row.name},
                         {"operands", nlohmann::json::array()},
                         {"results", nlohmann::json::array()},
                         {"local", row.local != nullptr},
                         {"matrix", row.matrix},
                         {"record", nullptr},
                         {"copied_from", nullptr},
                         {"copied_to", nullptr},
                         {"options", nlohmann::json::object()}};
  for (const CallBuffer& buffer : row.buffers.operands) {
    call["operands"].push_back(describe(buffer));
  }
  for (const CallBuffer& buffer : row.buffers.results) {
    call["results"].push_back(describe(buffer));
  }
  if (row.record) {
    call["record"] = *row.record;
  }
  if (row.copy) {
    call["copied_from"] = row.copy->from;
    call["copied_to"] = static_cast<std::size_t>(row.copy->to) - row.buffers.operands.size();
  }
  constexpr std::array types = {"int64", "float64", "bool"};
  for (const Option& option : row.options) {
    call["options"][std::string(option.name)] = types.at(option.unset.index());
  }
  return call;
}

nlohmann::json statuses() {
  nlohmann::json all;
  for (std::int32_t number = 0; name(static_cast<Status>(number)) != "unknown"; ++number) {
    all[std::string(name(static_cast<Status>(number)))] = number;
  }
  for (std::int32_t number = 0; name(static_cast<ErrorKind>(number)) != "unknown"; ++number) {
    all[std::string(name(static_cast<ErrorKind>(number)))] = Verdict::failure + number;
  }
  return all;
}

}  // namespace

std::size_t CallRow::option(std::string_view name) const {
  for (std::size_t index = 0; index < options.size(); ++index) {
    if (options[index].name == name) {
      return index;
    }
  }
  throw Error(ErrorKind::internal, fmt::format("internal: {} has no option {}", this->name, name));
}

std::size_t call_count() { return call_table().size(); }
const CallRow& call_at(std::size_t number) { return call_table().at(number); }
std::size_t number_of(const CallRow& row) {
  return static_cast<std::size_t>(&row - call_table().data());
}

const CallRow* find_call(std::string_view name) {
  for (const CallRow& row : call_table()) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

const std::string& description() {
  static const auto& text = *new std::string([] {
    nlohmann::json all = {
        {"calls", nlohmann::json::array()},     {"statuses", statuses()},
        {"verdict_words", words<Verdict>},      {"factor_words", words<FactorRecord>},
        {"invitation_words", invitation_words}, {"krylov", describe_krylov()}};
    for (const CallRow& row : call_table()) {
      all["calls"].push_back(describe(row));
    }
    return all.dump();
  }());
  return text;
}

}  // namespace shardsolve::jax
