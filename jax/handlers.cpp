// XLA FFI handlers: decode, validate, hand over to the gang. Loaded with ctypes, without Python.h;
// python/shardsolve/_library.py registers what is exported here.

#include "core/threads.hpp"
#include "jax/calls.hpp"
#include "jax/factor_files.hpp"
#include "jax/ffi_buffers.hpp"
#include "jax/gang.hpp"
#include "jax/invitation.hpp"
#include "jax/records.hpp"
#include "jax/session.hpp"
#include "jax/workers.hpp"

#include <shardsolve/version.hpp>

#include <fmt/format.h>

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

/// Made once for each call in an executable, and shared by its devices: what tells one call from
/// another. An attribute would not do, as two calls may be equal in everything.
struct CallSite {
  std::int64_t number = 0;
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
std::unique_ptr<Site> make_site() {
  static std::atomic<std::int64_t> made{0};
  auto site = std::make_unique<Site>();
  site->number = made++;
  return site;
}

ffi::ErrorOr<std::unique_ptr<CpuCallSite>> instantiate_on_cpu(ffi::RemainingArgs,
                                                              ffi::RemainingRets, ffi::Dictionary) {
  return make_site<CpuCallSite>();
}

ffi::ErrorOr<std::unique_ptr<GpuCallSite>> instantiate_on_gpu(ffi::RemainingArgs,
                                                              ffi::RemainingRets, ffi::Dictionary) {
  try {
    mesh::require_cuda_library();
  } catch (const std::exception& error) {
    return ffi::Unexpected(ffi::Error(XLA_FFI_Error_Code_FAILED_PRECONDITION, error.what()));
  }
  return make_site<GpuCallSite>();
}

using Place = ffi::Buffer<ffi::S32>;

/// A call as one device asks for it.
struct Request {
  ffi::AnyBuffer matrix;  // n columns; the device's rows
  std::int64_t n = 0;
  std::int64_t ranks = 0;
  std::int64_t tile = 0;
  std::int64_t columns = 0;
  std::array<void*, Seat::most_buffers> buffers{};
  void (*work)(const Job&, const std::vector<Seat>&) = nullptr;
  // XLA puts a result where its operand was if it may; otherwise the operand is copied there.
  std::optional<ffi::AnyBuffer> operand = std::nullopt;
  std::optional<ffi::AnyBuffer> result = std::nullopt;
};

Request factor_request(ffi::AnyBuffer a, ffi::Result<ffi::AnyBuffer> slab,
                       ffi::Result<ffi::AnyBuffer> diagonal,
                       ffi::Result<ffi::AnyBuffer> log_determinant, ffi::Result<Words> record,
                       std::int64_t n, std::int64_t ranks, std::int64_t tile) {
  return {.matrix = a,
          .n = n,
          .ranks = ranks,
          .tile = tile,
          .buffers = {a.untyped_data(), slab->untyped_data(), diagonal->untyped_data(),
                      log_determinant->untyped_data(), record->untyped_data()},
          .work = factor,
          .operand = a,
          .result = *slab};
}

Request solve_request(ffi::AnyBuffer slab, ffi::AnyBuffer diagonal, Words record, ffi::AnyBuffer b,
                      ffi::Result<ffi::AnyBuffer> x, ffi::Result<Words> verdict,
                      ffi::Result<ffi::AnyBuffer> error, std::int64_t n, std::int64_t ranks) {
  return {.matrix = slab,
          .n = n,
          .ranks = ranks,
          .columns = b.dimensions()[0],
          .buffers = {slab.untyped_data(), diagonal.untyped_data(), record.untyped_data(),
                      b.untyped_data(), x->untyped_data(), verdict->untyped_data(),
                      error->untyped_data()},
          .work = solve,
          .operand = b,
          .result = *x};
}

Request inverse_request(ffi::AnyBuffer slab, ffi::AnyBuffer diagonal, Words record,
                        ffi::Result<ffi::AnyBuffer> inverse, ffi::Result<Words> verdict,
                        ffi::Result<ffi::AnyBuffer> numbers, std::int64_t n, std::int64_t ranks) {
  return {.matrix = slab,
          .n = n,
          .ranks = ranks,
          .buffers = {slab.untyped_data(), diagonal.untyped_data(), record.untyped_data(),
                      inverse->untyped_data(), verdict->untyped_data(), numbers->untyped_data()},
          .work = invert,
          .operand = slab,
          .result = *inverse};
}

Request condition_request(ffi::AnyBuffer slab, ffi::AnyBuffer diagonal, Words record,
                          ffi::Result<ffi::AnyBuffer> rcond, ffi::Result<Words> verdict,
                          std::int64_t n, std::int64_t ranks) {
  return {.matrix = slab,
          .n = n,
          .ranks = ranks,
          .buffers = {slab.untyped_data(), diagonal.untyped_data(), record.untyped_data(),
                      rcond->untyped_data(), verdict->untyped_data()},
          .work = condition};
}

/// Memory of XLA's, which has most of a GPU's. It is XLA's again when the handler returns.
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

/// Joins the gang of this call, after checks that only a bug of ours can fail: Python has looked
/// at the shapes before. `done` is told what became of it.
void enter(const CallSite& site, ffi::RunId run, const PlaceWords& place, const Request& request,
           std::optional<Gpu> gpu, std::function<void(ffi::Error)> done) {
  const auto dtype = dtype_of_buffer(request.matrix.element_type());
  const auto dimensions = request.matrix.dimensions();
  const std::int64_t n = request.n;
  const std::int64_t width = request.ranks > 0 ? (n + request.ranks - 1) / request.ranks : -1;
  const std::int64_t rank = place[0];
  const std::int64_t group = place[1];
  const auto others = std::make_shared<const Invitations>(invitations_in(place));
  const auto invited = static_cast<std::int64_t>(others->size());
  if (!dtype || dimensions.size() != 2 || dimensions[0] != width || dimensions[1] != n ||
      rank < 0 || rank >= request.ranks || (invited != 0 && invited != request.ranks)) {
    done(failed(XLA_FFI_Error_Code_INVALID_ARGUMENT,
                fmt::format("internal: rank {} of {} brought a {}-dimensional array for n = {}",
                            rank, request.ranks, dimensions.size(), n)));
    return;
  }
  const Job job{*dtype, n, request.ranks, request.ranks, request.tile, request.columns};
  Seat seat{request.buffers, std::move(gpu), rank, nullptr};
  if (invited > 0 && (is_missing(others->front()) || !all_here(*others))) {
    seat.others = others;
    // Its ranks each do their own part: no device waits here for another.
    try {
      run_soon([job, work = request.work, seat, done] {
        try {
          work(job, {seat});
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
  // A GPU's thread waits for its own work anyway.
  const bool at_once = request.ranks == 1 ? seat.gpu || is_short(job) : !seat.gpu && is_short(job);
  if (at_once && request.ranks == 1) {
    try {
      request.work(job, {seat});
    } catch (const std::exception& error) {
      done(failed(XLA_FFI_Error_Code_INTERNAL, error.what()));
      return;
    }
    done(ffi::Error::Success());
    return;
  }
  join(
      {site.number, run.run_id, group}, rank, request.ranks, seat,
      [job, work = request.work](const std::vector<Seat>& seats) { work(job, seats); },
      [done = std::move(done)](const Trouble* trouble) {
        done(trouble == nullptr ? ffi::Error::Success()
                                : failed(trouble->late ? XLA_FFI_Error_Code_DEADLINE_EXCEEDED
                                                       : XLA_FFI_Error_Code_INTERNAL,
                                         trouble->text));
      },
      at_once);
}

template <auto request>
struct Handler;
/// One call's handlers, for operands, results and attributes as its request has them.
template <class... Arguments, Request (*request)(Arguments...)>
struct Handler<request> {
  /// Must never wait, as the other devices may need its thread.
  static ffi::Future on_cpu(CpuCallSite* site, ffi::RunId run, Place place,
                            Arguments... arguments) {
    const Request asked = request(arguments...);
    if (asked.operand && asked.operand->untyped_data() != asked.result->untyped_data()) {
      std::memcpy(asked.result->untyped_data(), asked.operand->untyped_data(),
                  asked.result->size_bytes());
    }
    ffi::Promise promise;
    ffi::Future future(promise);
    const std::int32_t* words = place.typed_data();
    enter(*site, run, {words, words + place.element_count()}, asked, std::nullopt,
          [promise](const ffi::Error& error) mutable {
            error.success() ? promise.SetAvailable() : promise.SetError(error);
          });
    return future;
  }

  /// Each GPU has a thread of its own, which comes to the calls in the order of its program.
  static ffi::Error on_gpu(GpuCallSite* site, ffi::RunId run, void* stream, std::int32_t device,
                           ffi::ScratchAllocator scratch, Place place, Arguments... arguments) {
    const mesh::CudaStream xla{device, stream};
    const Request asked = request(arguments...);
    PlaceWords words(place.element_count());
    try {
      if (asked.ranks > 1) {  // who is alone needs no number
        xla.copy(words.data(), place.untyped_data(), place.size_bytes());
      }
      xla.synchronize();
    } catch (const std::exception& error) {
      return failed(XLA_FFI_Error_Code_INTERNAL, error.what());
    }
    const auto allocate = [&scratch, device](std::size_t bytes) {
      return from_pool(scratch, device, bytes);
    };
    // Its last user may be the thread that sets it, when this one has gone on.
    const auto done = std::make_shared<std::promise<ffi::Error>>();
    enter(*site, run, words, asked, Gpu{xla, allocate},
          [done](ffi::Error error) { done->set_value(std::move(error)); });
    return done->get_future().get();
  }
};

/// Copies as much of `text` as fits, with an end; returns the length of all of it.
std::int64_t copy_text(const std::string& text, char* to, std::int64_t size) {
  if (size > 0) {
    const auto length = std::min(static_cast<std::int64_t>(text.size()), size - 1);
    std::copy_n(text.data(), length, to);
    to[length] = '\0';
  }
  return static_cast<std::int64_t>(text.size());
}

/// Runs `body` and writes what became of it.
template <class Body>
void report(std::int32_t* verdict, Body body) {
  Verdict result;
  try {
    body();
  } catch (const Error& error) {
    result = verdict_of(error);
  } catch (const std::exception& error) {
    result = verdict_of(Error(ErrorKind::internal, error.what()));
  }
  write(result, verdict);
}

}  // namespace
}  // namespace shardsolve::jax

namespace jax = shardsolve::jax;

#define SHARDSOLVE_API extern "C" __attribute__((visibility("default")))

// XLA shows the operands already, or does not, by version and platform.
#define SHARDSOLVE_INSTANTIATE() ffi::Ffi::BindInstantiate().RemainingArgs().RemainingRets().Attrs()
#define SHARDSOLVE_ON_CPU()                \
  ffi::Ffi::Bind()                         \
      .Ctx<ffi::State<jax::CpuCallSite>>() \
      .Ctx<ffi::RunId>()                   \
      .Arg<ffi::Buffer<ffi::S32>>()
#define SHARDSOLVE_ON_GPU()                \
  ffi::Ffi::Bind()                         \
      .Ctx<ffi::State<jax::GpuCallSite>>() \
      .Ctx<ffi::RunId>()                   \
      .Ctx<ffi::PlatformStream<void*>>()   \
      .Ctx<ffi::DeviceOrdinal>()           \
      .Ctx<ffi::ScratchAllocator>()        \
      .Arg<ffi::Buffer<ffi::S32>>()

// Operands, results and attributes, alike on both.
#define SHARDSOLVE_FACTOR           \
  Arg<ffi::AnyBuffer>()             \
      .Ret<ffi::AnyBuffer>()        \
      .Ret<ffi::AnyBuffer>()        \
      .Ret<ffi::AnyBuffer>()        \
      .Ret<ffi::Buffer<ffi::S32>>() \
      .Attr<std::int64_t>("n")      \
      .Attr<std::int64_t>("ranks")  \
      .Attr<std::int64_t>("tile")
#define SHARDSOLVE_SOLVE            \
  Arg<ffi::AnyBuffer>()             \
      .Arg<ffi::AnyBuffer>()        \
      .Arg<ffi::Buffer<ffi::S32>>() \
      .Arg<ffi::AnyBuffer>()        \
      .Ret<ffi::AnyBuffer>()        \
      .Ret<ffi::Buffer<ffi::S32>>() \
      .Ret<ffi::AnyBuffer>()        \
      .Attr<std::int64_t>("n")      \
      .Attr<std::int64_t>("ranks")
#define SHARDSOLVE_INVERSE          \
  Arg<ffi::AnyBuffer>()             \
      .Arg<ffi::AnyBuffer>()        \
      .Arg<ffi::Buffer<ffi::S32>>() \
      .Ret<ffi::AnyBuffer>()        \
      .Ret<ffi::Buffer<ffi::S32>>() \
      .Ret<ffi::AnyBuffer>()        \
      .Attr<std::int64_t>("n")      \
      .Attr<std::int64_t>("ranks")
#define SHARDSOLVE_CONDITION        \
  Arg<ffi::AnyBuffer>()             \
      .Arg<ffi::AnyBuffer>()        \
      .Arg<ffi::Buffer<ffi::S32>>() \
      .Ret<ffi::AnyBuffer>()        \
      .Ret<ffi::Buffer<ffi::S32>>() \
      .Attr<std::int64_t>("n")      \
      .Attr<std::int64_t>("ranks")

#define SHARDSOLVE_HANDLERS(NAME, REQUEST, ARGUMENTS)                                        \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_##NAME##_cpu, jax::Handler<jax::REQUEST>::on_cpu, \
                                SHARDSOLVE_ON_CPU().ARGUMENTS);                              \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_##NAME##_gpu, jax::Handler<jax::REQUEST>::on_gpu, \
                                SHARDSOLVE_ON_GPU().ARGUMENTS)

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_instantiate_cpu, jax::instantiate_on_cpu,
                              SHARDSOLVE_INSTANTIATE());
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_instantiate_gpu, jax::instantiate_on_gpu,
                              SHARDSOLVE_INSTANTIATE());
SHARDSOLVE_HANDLERS(cholesky_factor, factor_request, SHARDSOLVE_FACTOR);
SHARDSOLVE_HANDLERS(cholesky_solve, solve_request, SHARDSOLVE_SOLVE);
SHARDSOLVE_HANDLERS(cholesky_inverse, inverse_request, SHARDSOLVE_INVERSE);
SHARDSOLVE_HANDLERS(cholesky_condition, condition_request, SHARDSOLVE_CONDITION);
#pragma GCC visibility pop

// What Python calls itself. Nothing here throws.
SHARDSOLVE_API void* shardsolve_call_site_type_cpu() { return &jax::CpuCallSite::id; }
SHARDSOLVE_API void* shardsolve_call_site_type_gpu() { return &jax::GpuCallSite::id; }
SHARDSOLVE_API const void* shardsolve_call_site_info_cpu() { return &jax::cpu_call_site_info; }
SHARDSOLVE_API const void* shardsolve_call_site_info_gpu() { return &jax::gpu_call_site_info; }
/// Whether the backend for GPUs is there and finds one.
SHARDSOLVE_API void shardsolve_check_cuda(std::int32_t* verdict) {
  jax::report(verdict, [] { shardsolve::mesh::make_cuda_backend({.devices = {0}, .delays = {}}); });
}
SHARDSOLVE_API const char* shardsolve_version() { return SHARDSOLVE_VERSION_STRING; }
SHARDSOLVE_API void shardsolve_set_time_limit(double seconds) {
  jax::set_time_limit(std::chrono::duration<double>(seconds));
}
/// Words (int32) of an invitation.
SHARDSOLVE_API std::int64_t shardsolve_invitation_words() { return jax::invitation_words; }
SHARDSOLVE_API void shardsolve_set_small_matrix(std::int64_t n) { jax::set_small_matrix(n); }
/// The sentence of a verdict (int32[5]) as text; returns its whole length.
SHARDSOLVE_API std::int64_t shardsolve_message(const std::int32_t* verdict, char* to,
                                               std::int64_t size) {
  return jax::copy_text(jax::message_of(jax::read<jax::Verdict>(verdict)), to, size);
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
// Factors in files; the verdict (int32[5]) says whether it went well.
SHARDSOLVE_API void shardsolve_save_factor(const jax::WholeFactor* factor, const char* path,
                                           bool overwrite, std::int32_t* verdict) {
  jax::report(verdict, [&] { jax::save(*factor, path, overwrite); });
}
SHARDSOLVE_API void shardsolve_factor_shape(const char* path, jax::FactorShape* shape,
                                            std::int32_t* verdict) {
  jax::report(verdict, [&] { *shape = jax::shape_in(path); });
}
SHARDSOLVE_API void shardsolve_load_factor(const char* path, const jax::WholeFactor* factor,
                                           std::int32_t* verdict) {
  jax::report(verdict, [&] { jax::load(path, *factor); });
}
