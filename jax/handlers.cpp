// XLA FFI handlers: decode, validate, hand over to the gang. Loaded with ctypes, without Python.h;
// python/shardsolve/_library.py registers what is exported here.

#include "jax/calls.hpp"
#include "jax/factor_files.hpp"
#include "jax/gang.hpp"
#include "jax/records.hpp"
#include "jax/session.hpp"

#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ffi = xla::ffi;

namespace shardsolve::jax {
namespace {

/// Made once for each call in an executable, and shared by its devices: what tells one call from
/// another. An attribute would not do, as two calls may be equal in everything.
struct CallSite {
  static ffi::TypeId id;
  std::int64_t number = 0;
};
ffi::TypeId CallSite::id = {};
constexpr XLA_FFI_TypeInfo call_site_info = ffi::MakeTypeInfo<CallSite>();

ffi::ErrorOr<std::unique_ptr<CallSite>> instantiate(ffi::Dictionary /*attributes*/) {
  static std::atomic<std::int64_t> made{0};
  auto site = std::make_unique<CallSite>();
  site->number = made++;
  return site;
}

std::optional<Dtype> dtype_of_buffer(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return Dtype::float32;
    case ffi::DataType::F64:
      return Dtype::float64;
    case ffi::DataType::C64:
      return Dtype::complex64;
    case ffi::DataType::C128:
      return Dtype::complex128;
    default:
      return std::nullopt;
  }
}

ffi::Future failed(const std::string& message) {
  ffi::Promise promise;
  ffi::Future future(promise);
  promise.SetError(ffi::Error::InvalidArgument("shardsolve: " + message));
  return future;
}

using Place = ffi::Buffer<ffi::S32>;
using Words = ffi::Buffer<ffi::S32>;

/// What all handlers get besides their arrays.
struct Context {
  CallSite* site;
  ffi::RunId run;
  const Place& place;  // rank, group
  std::int64_t n;
  std::int64_t ranks;
  std::int64_t tile;
};

/// Joins the gang of this call, after checks that only a bug of ours can fail: Python has looked
/// at the shapes before.
ffi::Future enter(const Context& context, const ffi::AnyBuffer& matrix, std::int64_t columns,
                  const Seat& seat, void (*work)(const Job&, const std::vector<Seat>&)) {
  const auto dtype = dtype_of_buffer(matrix.element_type());
  const auto dimensions = matrix.dimensions();
  const std::int64_t width =
      context.ranks > 0 ? (context.n + context.ranks - 1) / context.ranks : -1;
  const std::int64_t rank = context.place.typed_data()[0];
  if (!dtype || dimensions.size() != 2 || dimensions[0] != width || dimensions[1] != context.n ||
      rank < 0 || rank >= context.ranks) {
    return failed(fmt::format("internal: rank {} of {} brought a {}-dimensional array for n = {}",
                              rank, context.ranks, dimensions.size(), context.n));
  }
  const CallKey key{context.site->number, context.run.run_id, context.place.typed_data()[1]};
  const Job job{*dtype, context.n, context.ranks, context.ranks, context.tile, columns};
  return join(key, rank, context.ranks, seat,
              [job, work](const std::vector<Seat>& seats) { work(job, seats); });
}

/// XLA puts a result where its operand was if it may; otherwise the operand is copied there.
void bring(const ffi::AnyBuffer& from, ffi::AnyBuffer& to) {
  if (from.untyped_data() != to.untyped_data()) {
    std::memcpy(to.untyped_data(), from.untyped_data(), to.size_bytes());
  }
}

ffi::Future cholesky_factor(CallSite* site, ffi::RunId run, Place place, ffi::AnyBuffer a,
                            ffi::Result<ffi::AnyBuffer> slab, ffi::Result<ffi::AnyBuffer> diagonal,
                            ffi::Result<ffi::AnyBuffer> log_determinant, ffi::Result<Words> record,
                            std::int64_t n, std::int64_t ranks, std::int64_t tile) {
  bring(a, *slab);
  const Seat seat{{a.untyped_data(), slab->untyped_data(), diagonal->untyped_data(),
                   log_determinant->untyped_data(), record->untyped_data()}};
  return enter({site, run, place, n, ranks, tile}, a, 0, seat, factor);
}

ffi::Future cholesky_solve(CallSite* site, ffi::RunId run, Place place, ffi::AnyBuffer slab,
                           ffi::AnyBuffer diagonal, Words record, ffi::AnyBuffer b,
                           ffi::Result<ffi::AnyBuffer> x, ffi::Result<Words> verdict,
                           ffi::Result<ffi::AnyBuffer> error, std::int64_t n, std::int64_t ranks) {
  bring(b, *x);
  const Seat seat{{slab.untyped_data(), diagonal.untyped_data(), record.untyped_data(),
                   b.untyped_data(), x->untyped_data(), verdict->untyped_data(),
                   error->untyped_data()}};
  return enter({site, run, place, n, ranks, 0}, slab, b.dimensions()[0], seat, solve);
}

ffi::Future cholesky_inverse(CallSite* site, ffi::RunId run, Place place, ffi::AnyBuffer slab,
                             ffi::AnyBuffer diagonal, Words record,
                             ffi::Result<ffi::AnyBuffer> inverse, ffi::Result<Words> verdict,
                             ffi::Result<ffi::AnyBuffer> numbers, std::int64_t n,
                             std::int64_t ranks) {
  bring(slab, *inverse);
  const Seat seat{{slab.untyped_data(), diagonal.untyped_data(), record.untyped_data(),
                   inverse->untyped_data(), verdict->untyped_data(), numbers->untyped_data()}};
  return enter({site, run, place, n, ranks, 0}, slab, 0, seat, invert);
}

ffi::Future cholesky_condition(CallSite* site, ffi::RunId run, Place place, ffi::AnyBuffer slab,
                               ffi::AnyBuffer diagonal, Words record,
                               ffi::Result<ffi::AnyBuffer> rcond, ffi::Result<Words> verdict,
                               std::int64_t n, std::int64_t ranks) {
  const Seat seat{{slab.untyped_data(), diagonal.untyped_data(), record.untyped_data(),
                   rcond->untyped_data(), verdict->untyped_data()}};
  return enter({site, run, place, n, ranks, 0}, slab, 0, seat, condition);
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

#define SHARDSOLVE_BIND() \
  ffi::Ffi::Bind().Ctx<ffi::State<jax::CallSite>>().Ctx<ffi::RunId>().Arg<ffi::Buffer<ffi::S32>>()

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_instantiate, jax::instantiate,
                              ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_cholesky_factor, jax::cholesky_factor,
                              SHARDSOLVE_BIND()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Attr<std::int64_t>("n")
                                  .Attr<std::int64_t>("ranks")
                                  .Attr<std::int64_t>("tile"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_cholesky_solve, jax::cholesky_solve,
                              SHARDSOLVE_BIND()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<std::int64_t>("n")
                                  .Attr<std::int64_t>("ranks"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_cholesky_inverse, jax::cholesky_inverse,
                              SHARDSOLVE_BIND()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<std::int64_t>("n")
                                  .Attr<std::int64_t>("ranks"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_cholesky_condition, jax::cholesky_condition,
                              SHARDSOLVE_BIND()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Attr<std::int64_t>("n")
                                  .Attr<std::int64_t>("ranks"));
#pragma GCC visibility pop

// What Python calls itself. Nothing here throws.
SHARDSOLVE_API void* shardsolve_call_site_type() { return &jax::CallSite::id; }
SHARDSOLVE_API const void* shardsolve_call_site_info() { return &jax::call_site_info; }
SHARDSOLVE_API const char* shardsolve_version() { return SHARDSOLVE_VERSION_STRING; }
SHARDSOLVE_API void shardsolve_set_time_limit(double seconds) {
  jax::set_time_limit(std::chrono::duration<double>(seconds));
}
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
