/// What calls for small systems on one device share: on a CPU device each matrix of a batch by
/// itself, in XLA's threads, on a GPU all of them by one kernel.
#pragma once

#include "jax/calls.hpp"
#include "jax/local_task.hpp"
#include "jax/records.hpp"
#include "runtime/small_systems.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace shardsolve::jax {

/// So many right-hand sides are each certified like one. Of more the usual call takes products.
inline constexpr std::int64_t most_small_columns = 4;

/// do_item(i) for each of the batch, of matrices of n rows.
void each_item(const LocalTask& task, std::int64_t n,
               const std::function<void(std::int64_t)>& do_item);

/// The usual call for one matrix, which finds out what is wrong or takes more pains. `buffers`: in
/// the order of its row. `options`: those of the call that are not left unset.
void do_usual_call(std::string_view name, Job job, std::initializer_list<void*> buffers,
                   std::initializer_list<std::pair<std::string_view, OptionValue>> options = {});

/// A step for all of the batch on a GPU, for the caller to fill in: what a buffer has goes to
/// items_on_gpu(). What is left undecided is the caller's of this call.
runtime::SmallSystems on_gpu(const LocalTask& task, runtime::SmallStep step, std::int64_t n);
void solve_on_gpu(const LocalTask& task, const runtime::SmallSystems& call);
/// Elements of so many bytes.
runtime::SmallItems items_on_gpu(const LocalTask& task, BufferIndex buffer, std::size_t element);
/// The record of a factor that one device has made of one matrix, but for its numbers.
FactorRecord record_of_one(const LocalTask& task, std::int64_t n);

}  // namespace shardsolve::jax
