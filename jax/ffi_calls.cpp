#include "jax/ffi_calls.hpp"

#include <shardsolve/dtype.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardsolve::jax {

ffi::Error broken(const std::string& text) {
  return failed(XLA_FFI_Error_Code_INVALID_ARGUMENT, "internal: " + text);
}

ffi::DataType type_of(Element element, Dtype dtype) {
  const bool narrow = dtype == Dtype::float32 || dtype == Dtype::complex64;
  switch (element) {
    case Element::matrix:
      return ffi_type(dtype);
    case Element::real:
      return narrow ? ffi::DataType::F32 : ffi::DataType::F64;
    case Element::float64:
      return ffi::DataType::F64;
    case Element::words:
      return ffi::DataType::S32;
  }
  return ffi::DataType::INVALID;
}

namespace {

/// Empty if a buffer is what the row says, or what is wrong with it.
std::string complaint(const CallBuffer& expected, const Job& job, const ffi::AnyBuffer& given) {
  const auto dimensions = given.dimensions();
  const std::vector<std::int64_t> shape(dimensions.begin(), dimensions.end());
  const std::vector<std::int64_t> wanted = shape_of(expected, job);
  const ffi::DataType type = type_of(expected.element, job.dtype);
  if (given.element_type() == type && shape == wanted) {
    return "";
  }
  return fmt::format(
      "{} of {} has XLA's element type {} and shape ({}), where {} and ({}) belong; n = {} on {} "
      "ranks",
      expected.name, job.row->name, static_cast<int>(given.element_type()), fmt::join(shape, ", "),
      static_cast<int>(type), fmt::join(wanted, ", "), job.n, job.ranks);
}

}  // namespace

ffi::ErrorOr<const CallRow*> row_in(const ffi::Dictionary& attributes) {
  const auto call = attributes.get<std::string_view>("call");
  const CallRow* row = call ? find_call(*call) : nullptr;
  if (row == nullptr) {
    return ffi::Unexpected(broken(
        fmt::format("there is no call {}", call ? *call : std::string_view("without name"))));
  }
  return row;
}

ffi::ErrorOr<Options> options_in(const ffi::Dictionary& attributes, const CallRow& row) {
  Options options;
  for (std::size_t index = 0; index < row.options.size(); ++index) {
    const auto& [name, unset] = row.options[index];
    const bool found = std::visit(
        [&, &called = name]<class Value>(Value) {
          const auto value = attributes.get<Value>(called);
          if (value) {
            options[index] = *value;
          }
          return value.has_value();
        },
        unset);
    if (!found) {
      return ffi::Unexpected(broken(fmt::format(
          "{} came without its option {}, or with one of another type", row.name, name)));
    }
  }
  return options;
}

ffi::ErrorOr<Job> job_in(const ffi::Dictionary& attributes) {
  const auto row = row_in(attributes);
  if (!row) {
    return ffi::Unexpected(row.error());
  }
  const auto n = attributes.get<std::int64_t>("n");
  const auto ranks = attributes.get<std::int64_t>("ranks");
  const std::size_t expected = 3 + (*row)->options.size();
  if (!n || !ranks || *ranks < 1 || attributes.size() != expected) {
    return ffi::Unexpected(
        broken(fmt::format("{} has {} attributes; call, n, ranks and its options are {}",
                           (*row)->name, attributes.size(), expected)));
  }
  const auto options = options_in(attributes, **row);
  if (!options) {
    return ffi::Unexpected(options.error());
  }
  return Job{.row = *row, .n = *n, .devices = *ranks, .ranks = *ranks, .options = *options};
}

ffi::ErrorOr<Job> with_operands(Job job, const ffi::RemainingArgs& operands, bool as_jax_has_them) {
  const auto& expected = job.row->buffers.operands;
  if (operands.size() != expected.size()) {
    return ffi::Unexpected(broken(fmt::format("{} has {} operands, where {} belong", job.row->name,
                                              operands.size(), expected.size())));
  }
  const auto matrix = operands.get<ffi::AnyBuffer>(static_cast<std::size_t>(job.row->matrix));
  const auto dtype = matrix ? dtype_of_buffer(matrix->element_type()) : std::nullopt;
  if (!dtype) {
    return ffi::Unexpected(broken(fmt::format("{} has no matrix", job.row->name)));
  }
  job.dtype = *dtype;
  for (std::size_t index = 0; index < expected.size(); ++index) {
    if (expected[index].kind == Kind::sides || expected[index].kind == Kind::tall) {
      const auto given = operands.get<ffi::AnyBuffer>(index);
      if (!given || given->dimensions().size() != 2) {
        return ffi::Unexpected(
            broken(fmt::format("{} of {} is no matrix", expected[index].name, job.row->name)));
      }
      std::int64_t& count = expected[index].kind == Kind::tall ? job.unknowns : job.columns;
      count = given->dimensions()[as_jax_has_them ? 1 : 0];
    }
  }
  return job;
}

ffi::Error take_buffers(const Job& job, const ffi::RemainingArgs& operands,
                        const ffi::RemainingRets& results, Seat& seat) {
  const CallBuffers& row = job.row->buffers;
  if (operands.size() != row.operands.size() || results.size() != row.results.size()) {
    return broken(fmt::format("{} has {} operands and {} results, where {} and {} belong",
                              job.row->name, operands.size(), results.size(), row.operands.size(),
                              row.results.size()));
  }
  for (std::size_t index = 0; index < row.size(); ++index) {
    std::optional<ffi::AnyBuffer> given;
    if (index < operands.size()) {
      if (const auto operand = operands.get<ffi::AnyBuffer>(index)) {
        given = *operand;
      }
    } else if (auto result = results.get<ffi::AnyBuffer>(index - operands.size())) {
      given = **result;
    }
    const std::string wrong =
        given ? complaint(row.at(index), job, *given)
              : fmt::format("{} of {} is no buffer", row.at(index).name, job.row->name);
    if (!wrong.empty()) {
      return broken(wrong);
    }
    seat.buffers[index] = given->untyped_data();
  }
  return ffi::Error::Success();
}

}  // namespace shardsolve::jax
