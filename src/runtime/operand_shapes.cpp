#include "runtime/operand_shapes.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::runtime {

void refuse_operands(const char* kernel) {
  throw Error(
      ErrorKind::internal,
      fmt::format("operands of {} do not fit: this is a bug of shardsolve, please report it",
                  kernel));
}

}  // namespace shardsolve::runtime
