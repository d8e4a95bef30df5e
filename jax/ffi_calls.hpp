/// From what XLA hands over to a call of the table.
#pragma once

#include "jax/calls.hpp"
#include "jax/ffi_buffers.hpp"
#include "jax/seat.hpp"

#include <string>

namespace shardsolve::jax {

/// A bug of ours: Python has looked at everything before.
ffi::Error broken(const std::string& text);

ffi::DataType type_of(Element element, Dtype dtype);

/// The row that the attribute "call" names, and its options.
ffi::ErrorOr<const CallRow*> row_in(const ffi::Dictionary& attributes);
ffi::ErrorOr<Options> options_in(const ffi::Dictionary& attributes, const CallRow& row);

/// What the attributes of a call say: its row as "call", n, ranks, and the row's options. The rest
/// of the job is in the operands. An error if they are not those of the row, which only a bug of
/// ours brings about.
ffi::ErrorOr<Job> job_in(const ffi::Dictionary& attributes);

/// `job` with the dtype of its matrix operand and the number of right-hand sides of its `sides`
/// operands. `as_jax_has_them`: those are still (n, k), not yet (k, w) as the call takes them.
ffi::ErrorOr<Job> with_operands(Job job, const ffi::RemainingArgs& operands, bool as_jax_has_them);

/// Fills the buffers of a seat, after a look at the number, elements and shapes of all.
ffi::Error take_buffers(const Job& job, const ffi::RemainingArgs& operands,
                        const ffi::RemainingRets& results, Seat& seat);

}  // namespace shardsolve::jax
