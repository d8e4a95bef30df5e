#include "comm/failure.hpp"

#include "runtime/pulse.hpp"

#include <new>

namespace shardsolve::comm {
namespace {

std::optional<Failure> describe_in_full(const std::exception_ptr& reason) {
  try {
    std::rethrow_exception(reason);
  } catch (const runtime::Abandoned&) {
    return std::nullopt;
  } catch (const Error& error) {
    return Failure{error.kind(), error.what()};
  } catch (const std::bad_alloc&) {
    return Failure{ErrorKind::out_of_memory, {}};
  } catch (const std::exception& error) {
    return Failure{ErrorKind::internal, error.what()};
  } catch (...) {
    return Failure{ErrorKind::internal, "something was thrown that is no exception"};
  }
}

}  // namespace

std::string_view Failure::text() const {
  return message.empty() && kind == ErrorKind::out_of_memory ? no_memory_text
                                                             : std::string_view(message);
}

std::optional<Failure> describe(const std::exception_ptr& reason) {
  try {
    return describe_in_full(reason);
  } catch (const std::bad_alloc&) {
    return Failure{ErrorKind::out_of_memory, {}};
  }
}

}  // namespace shardsolve::comm
