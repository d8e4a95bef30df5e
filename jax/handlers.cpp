// XLA FFI handlers: decode, validate, hand over to the gang. Loaded with ctypes, without Python.h;
// python/shardsolve/_library.py registers what is exported here.

#include "core/threads.hpp"
#include "jax/calls.hpp"
#include "jax/factor_files.hpp"
#include "jax/ffi_buffers.hpp"
#include "jax/ffi_calls.hpp"
#include "jax/gang.hpp"
#include "jax/invitation.hpp"
#include "jax/krylov_description.hpp"
#include "jax/krylov_diagnosis.hpp"
#include "jax/krylov_failures.hpp"
#include "jax/krylov_preconditioner_calls.hpp"
#include "jax/partners.hpp"
#include "jax/python_calls.hpp"
#include "jax/records.hpp"
#include "jax/session.hpp"
#include "jax/workers.hpp"

#include <shardsolve/plan.hpp>
#include <shardsolve/version.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace ffi = xla::ffi;

namespace shardsolve::jax {
namespace {

/// One call in an executable: made once, shared by the devices that run it. Its number tells it
/// from other calls, which attributes cannot: two calls may be equal in all of them.
struct CallSite {
  std::int64_t number = 0;
  Job job;  // as its attributes say
};
/// XLA's CPU and GPU parts each number the types that they know.
struct CpuCallSite : CallSite {
  static ffi::TypeId id;
};
struct GpuCallSite : CallSite {
  static ffi::TypeId id;
};
ffi::TypeId CpuCallSite::id = {};
ffi::TypeId GpuCallSite::id = {};
constexpr XLA_FFI_TypeInfo cpu_call_site_info = ffi::MakeTypeInfo<CpuCallSite>();
constexpr XLA_FFI_TypeInfo gpu_call_site_info = ffi::MakeTypeInfo<GpuCallSite>();

template <class Site>
ffi::ErrorOr<std::unique_ptr<Site>> make_site(const ffi::Dictionary& attributes) {
  static std::atomic<std::int64_t> made{0};
  const auto job = job_in(attributes);
  if (!job) {
    return ffi::Unexpected(job.error());
  }
  auto site = std::make_unique<Site>();
  site->number = made++;
  site->job = *job;
  return site;
}

ffi::ErrorOr<std::unique_ptr<CpuCallSite>> instantiate_on_cpu(ffi::RemainingArgs,
                                                              ffi::RemainingRets,
                                                              ffi::Dictionary attributes) {
  return make_site<CpuCallSite>(attributes);
}

ffi::ErrorOr<std::unique_ptr<GpuCallSite>> instantiate_on_gpu(ffi::RemainingArgs,
                                                              ffi::RemainingRets,
                                                              ffi::Dictionary attributes) {
  try {
    mesh::require_cuda_library();
  } catch (const std::exception& error) {
    return ffi::Unexpected(ffi::Error(XLA_FFI_Error_Code_FAILED_PRECONDITION, error.what()));
  }
  return make_site<GpuCallSite>(attributes);
}

using PlaceBuffer = ffi::Buffer<ffi::S32>;

/// Memory of XLA's pool, which holds most of a GPU's memory. XLA takes it back when the handler
/// returns.
runtime::Buffer from_pool(ffi::ScratchAllocator& scratch, int device, std::size_t bytes) {
  constexpr std::size_t largest_promise = 16;  // that XLA can be asked for; it keeps to 256
  const std::optional<void*> memory =
      scratch.Allocate(std::max<std::size_t>(bytes, 1), largest_promise);
  if (!memory) {
    throw Error(ErrorKind::out_of_memory,
                fmt::format("XLA's memory pool of GPU {} has not {:.2f} GB more in one piece for "
                            "the workspace of this call: delete arrays, pass overwrite_a=True, "
                            "use more GPUs, or give the pool more of the memory "
                            "(XLA_PYTHON_CLIENT_MEM_FRACTION, 0.75 unless set)",
                            device, static_cast<double>(bytes) / 1e9));
  }
  return {std::shared_ptr<void>(*memory, [](void*) {}), bytes};
}

/// Where a device stands: its rank, and which group of devices it belongs to. Where there are
/// several processes the invitations of all ranks follow.
using PlaceWords = std::vector<std::int32_t>;
constexpr std::size_t own_words = 2;

Invitations invitations_in(const PlaceWords& place) {
  Invitations all;
  for (std::size_t at = own_words; at < place.size(); at += invitation_words) {
    all.push_back(read<Invitation>(place.data() + at));
  }
  return all;
}

/// Joins the gang of this call, or does its work, with the buffers in `seat`. Calls `done` with the
/// result: success, or the error.
void enter(const CallSite& site, ffi::RunId run, const PlaceWords& place, const Job& job, Seat seat,
           std::function<void(ffi::Error)> done) {
  seat.rank = place[0];
  const std::int64_t group = place[1];
  const auto others = std::make_shared<const Invitations>(invitations_in(place));
  const auto invited = static_cast<std::int64_t>(others->size());
  if (seat.rank < 0 || seat.rank >= job.ranks || (invited != 0 && invited != job.ranks)) {
    done(failed(
        XLA_FFI_Error_Code_INVALID_ARGUMENT,
        fmt::format("internal: rank {} of {} came to {}", seat.rank, job.ranks, job.row->name)));
    return;
  }
  if (invited > 0 && (is_missing(others->front()) || !all_here(*others))) {
    seat.others = others;
    // Its ranks each do their own part: no device waits here for another.
    try {
      run_soon([job, seat, done] {
        try {
          do_call(job, {seat});
        } catch (const std::exception& error) {
          done(failed(XLA_FFI_Error_Code_INTERNAL, error.what()));
          return;
        }
        done(ffi::Error::Success());
      });
    } catch (const std::system_error& none) {
      done(failed(XLA_FFI_Error_Code_INTERNAL,
                  core::no_thread_error("a solve from JAX", none).what()));
    }
    return;
  }
  // The handler of a GPU waits for its call in any case: one rank's call runs in its thread.
  const bool at_once = job.ranks == 1 ? seat.gpu || is_short(job) : !seat.gpu && is_short(job);
  if (at_once && job.ranks == 1) {
    try {
      do_call(job, {seat});
    } catch (const std::exception& error) {
      done(failed(XLA_FFI_Error_Code_INTERNAL, error.what()));
      return;
    }
    done(ffi::Error::Success());
    return;
  }
  join(
      {site.number, run.run_id, group}, seat.rank, job.ranks, seat,
      [job](const std::vector<Seat>& seats) { do_call(job, seats); },
      [done = std::move(done)](const Trouble* trouble) {
        done(trouble == nullptr ? ffi::Error::Success()
                                : failed(trouble->late ? XLA_FFI_Error_Code_DEADLINE_EXCEEDED
                                                       : XLA_FFI_Error_Code_INTERNAL,
                                         trouble->text));
      },
      at_once);
}

/// The job with what its operands say, and the seat's buffers: an error if these are not the row's.
ffi::ErrorOr<Job> take(const CallSite& site, const ffi::RemainingArgs& operands,
                       const ffi::RemainingRets& results, Seat& seat) {
  const auto job = with_operands(site.job, operands, false);
  if (!job) {
    return job;
  }
  const ffi::Error error = take_buffers(*job, operands, results, seat);
  if (error.failure()) {
    return ffi::Unexpected(error);
  }
  return job;
}

ffi::Future at_once_with(const ffi::Error& error) {
  ffi::Promise promise;
  ffi::Future future(promise);
  promise.SetError(error);
  return future;
}

/// Must never wait, as the other devices may need its thread.
ffi::Future call_on_cpu(CpuCallSite* site, ffi::RunId run, PlaceBuffer place,
                        ffi::RemainingArgs operands, ffi::RemainingRets results,
                        ffi::Dictionary /*the site has them*/) {
  Seat seat;
  const auto job = take(*site, operands, results, seat);
  if (!job) {
    return at_once_with(job.error());
  }
  if (const auto& copy = job->row->copy) {
    void* const source = seat.at(copy->from);
    void* const target = seat.at(copy->to);
    if (source != target) {
      std::memcpy(target, source, bytes_of(job->row->buffers.at(copy->to), *job));
    }
  }
  ffi::Promise promise;
  ffi::Future future(promise);
  const std::int32_t* words = place.typed_data();
  enter(*site, run, {words, words + place.element_count()}, *job, std::move(seat),
        [promise](const ffi::Error& error) mutable {
          error.success() ? promise.SetAvailable() : promise.SetError(error);
        });
  return future;
}

/// Each GPU has a thread of its own, which comes to the calls in the order of its program.
ffi::Error call_on_gpu(GpuCallSite* site, ffi::RunId run, void* stream, std::int32_t device,
                       ffi::ScratchAllocator scratch, PlaceBuffer place,
                       ffi::RemainingArgs operands, ffi::RemainingRets results,
                       ffi::Dictionary /*the site has them*/) {
  Seat seat;
  const auto job = take(*site, operands, results, seat);
  if (!job) {
    return job.error();
  }
  const mesh::CudaStream xla{device, stream};
  PlaceWords words(place.element_count());
  try {
    wait_for(xla, job->ranks);  // a copy to the host would wait by itself, and without end
    if (job->ranks > 1) {       // else rank 0 of group 0: the words are zero
      xla.copy(words.data(), place.untyped_data(), place.size_bytes());
      xla.synchronize();
    }
    if (words.size() > own_words) {
      remember_partners(device, invitations_in(words));
    }
  } catch (const std::exception& error) {
    return failed(XLA_FFI_Error_Code_INTERNAL, error.what());
  }
  seat.gpu =
      Gpu{xla, [&scratch, device](std::size_t bytes) { return from_pool(scratch, device, bytes); }};
  // Shared: the thread that sets the value may still be inside set_value() when this one returns.
  const auto done = std::make_shared<std::promise<ffi::Error>>();
  enter(*site, run, words, *job, std::move(seat),
        [done](ffi::Error error) { done->set_value(std::move(error)); });
  return done->get_future().get();
}

/// Copies as much of `text` as fits, with an end; returns the length of all of it.
std::int64_t copy_text(const std::string& text, char* to, std::int64_t size) {
  if (size > 0) {
    const auto length = std::min(static_cast<std::int64_t>(text.size()), size - 1);
    std::copy_n(text.data(), length, to);
    to[length] = '\0';
  }
  return static_cast<std::int64_t>(text.size());
}

}  // namespace
}  // namespace shardsolve::jax

namespace jax = shardsolve::jax;

#pragma GCC visibility push(default)
// XLA shows the operands already, or does not, by version and platform.
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_instantiate_cpu, jax::instantiate_on_cpu,
                              ffi::Ffi::BindInstantiate().RemainingArgs().RemainingRets().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_instantiate_gpu, jax::instantiate_on_gpu,
                              ffi::Ffi::BindInstantiate().RemainingArgs().RemainingRets().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_call_cpu, jax::call_on_cpu,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<jax::CpuCallSite>>()
                                  .Ctx<ffi::RunId>()
                                  .Arg<jax::PlaceBuffer>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_call_gpu, jax::call_on_gpu,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<jax::GpuCallSite>>()
                                  .Ctx<ffi::RunId>()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Arg<jax::PlaceBuffer>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs());
#pragma GCC visibility pop

// What Python calls itself. Nothing here throws.
SHARDSOLVE_API void* shardsolve_call_site_type_cpu() { return &jax::CpuCallSite::id; }
SHARDSOLVE_API void* shardsolve_call_site_type_gpu() { return &jax::GpuCallSite::id; }
SHARDSOLVE_API const void* shardsolve_call_site_info_cpu() { return &jax::cpu_call_site_info; }
SHARDSOLVE_API const void* shardsolve_call_site_info_gpu() { return &jax::gpu_call_site_info; }
/// Whether the process has to end without waiting for its GPU: see partners.hpp.
SHARDSOLVE_API bool shardsolve_has_left_a_stream() { return jax::has_left_a_stream(); }
/// Whether the backend for GPUs is there and finds one.
SHARDSOLVE_API void shardsolve_check_cuda(std::int32_t* verdict) {
  jax::report(verdict, [] { shardsolve::mesh::make_cuda_backend({.devices = {0}, .delays = {}}); });
}
/// Whether it can be loaded; touches no GPU.
SHARDSOLVE_API void shardsolve_find_cuda(std::int32_t* verdict) {
  jax::report(verdict, [] { shardsolve::mesh::require_cuda_library(); });
}
/// The major version of JAX's CUDA, before the first call that needs a GPU.
SHARDSOLVE_API void shardsolve_set_cuda_of_jax(std::int32_t major) {
  shardsolve::mesh::set_cuda_of_jax(major);
}
/// Bytes of host memory that this process can still take.
SHARDSOLVE_API std::int64_t shardsolve_available_host_memory() {
  return shardsolve::available_host_memory();
}
SHARDSOLVE_API const char* shardsolve_version() { return SHARDSOLVE_VERSION_STRING; }
SHARDSOLVE_API void shardsolve_set_time_limit(double seconds) {
  jax::set_time_limit(std::chrono::duration<double>(seconds));
}
/// The calls, the statuses and the lengths of records, as JSON.
SHARDSOLVE_API const char* shardsolve_description() { return jax::description().c_str(); }
SHARDSOLVE_API void shardsolve_set_small_matrix(std::int64_t n) { jax::set_small_matrix(n); }
/// The sentence of a verdict (int32[5]) as text; returns its whole length.
SHARDSOLVE_API std::int64_t shardsolve_message(const std::int32_t* verdict, char* to,
                                               std::int64_t size) {
  return jax::copy_text(jax::message_of(jax::read<jax::Verdict>(verdict)), to, size);
}
/// Lengths of what a Krylov solve keeps: krylov_description.hpp.
SHARDSOLVE_API void shardsolve_krylov_lengths(std::int64_t method, std::int64_t n,
                                              std::int64_t restart, std::int64_t max_iterations,
                                              bool log, std::int64_t rows, std::int64_t ranks,
                                              std::int64_t* lengths) {
  jax::krylov_lengths(method, n, restart, max_iterations, log, rows, ranks, lengths);
}
/// The sentence of a report as text; returns its whole length.
SHARDSOLVE_API std::int64_t shardsolve_krylov_message(const std::int32_t* report, char* to,
                                                      std::int64_t size) {
  return jax::copy_text(jax::krylov_message(report), to, size);
}
/// Failures that nobody has asked for yet, as JSON to be given to shardsolve_free.
SHARDSOLVE_API char* shardsolve_take_krylov_failures() {
  return strdup(jax::take_krylov_failures().c_str());
}
/// What is to be known of a system, as JSON to be given to shardsolve_free; null if there is none,
/// the verdict (int32[5]) says why. Of a matrix, or of a product if `product` is not null.
SHARDSOLVE_API char* shardsolve_krylov_diagnose(std::int32_t dtype, std::int64_t n,
                                                const std::int64_t* pointers,
                                                const std::int32_t* columns, const void* values,
                                                jax::GivenProduct product, double rtol,
                                                std::int32_t* verdict) {
  std::string text;
  jax::report(verdict, [&] {
    const auto of = static_cast<shardsolve::Dtype>(dtype);
    text = product != nullptr ? jax::diagnose(of, n, product, rtol)
                              : jax::diagnose({of, n, pointers, columns, values}, rtol);
  });
  return text.empty() ? nullptr : strdup(text.c_str());
}
/// Of a preconditioner of blocks, by name: where they are cut, and how long its factors are; to be
/// given to shardsolve_free.
SHARDSOLVE_API void shardsolve_plan_krylov_blocks(const char* asked, char** plan,
                                                  std::int32_t* verdict) {
  jax::report(verdict, [&] {
    *plan = strdup(jax::plan_krylov_blocks(nlohmann::json::parse(asked)).c_str());
  });
}
/// Likewise: an interval for Chebyshev's iteration.
SHARDSOLVE_API void shardsolve_krylov_chebyshev_bounds(const char* asked, char** bounds,
                                                       std::int32_t* verdict) {
  jax::report(verdict, [&] {
    *bounds = strdup(jax::krylov_chebyshev_bounds(nlohmann::json::parse(asked)).c_str());
  });
}
/// Likewise, of the levels of multigrid.
SHARDSOLVE_API void shardsolve_krylov_largest_eigenvalue(const char* asked, char** found,
                                                         std::int32_t* verdict) {
  jax::report(verdict, [&] {
    *found = strdup(jax::krylov_largest_eigenvalue(nlohmann::json::parse(asked)).c_str());
  });
}
SHARDSOLVE_API void shardsolve_krylov_inverse(const char* asked, char** found,
                                              std::int32_t* verdict) {
  jax::report(verdict,
              [&] { *found = strdup(jax::krylov_inverse(nlohmann::json::parse(asked)).c_str()); });
}
SHARDSOLVE_API void shardsolve_begin_trace() { jax::begin_trace(); }
/// Ends the recording; its text is to be given to shardsolve_free. Returns its length.
SHARDSOLVE_API std::int64_t shardsolve_end_trace(char** text) {
  const std::string json = jax::end_trace();
  *text = strdup(json.c_str());
  return static_cast<std::int64_t>(json.size());
}
SHARDSOLVE_API void shardsolve_free(void* memory) { std::free(memory); }
SHARDSOLVE_API void shardsolve_set_progress(jax::ProgressCallback callback) {
  jax::set_progress(callback);
}
// Factors in files, by name; shapes are to be given to shardsolve_free. The verdict (int32[5]) says
// whether it went well.
SHARDSOLVE_API void shardsolve_save_factor(const char* factor, const char* path, bool overwrite,
                                           std::int32_t* verdict) {
  jax::report(verdict, [&] { jax::save(nlohmann::json::parse(factor), path, overwrite); });
}
SHARDSOLVE_API void shardsolve_factor_shape(const char* path, char** shape, std::int32_t* verdict) {
  jax::report(verdict, [&] { *shape = strdup(jax::shape_in(path).c_str()); });
}
SHARDSOLVE_API void shardsolve_load_factor(const char* path, const char* factor,
                                           std::int32_t* verdict) {
  jax::report(verdict, [&] { jax::load(path, nlohmann::json::parse(factor)); });
}
