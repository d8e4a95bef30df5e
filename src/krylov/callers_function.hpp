/// Functions that the caller has given.
#pragma once

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <new>
#include <utility>

namespace shardsolve::krylov {

/// `given`, what it throws told as Error(invalid_argument). Throws that itself if `given` is empty.
/// `call`: the public one that it was given to; `does`: what it is to do.
template <class... Arguments>
std::function<void(Arguments...)> callers_function(std::function<void(Arguments...)> given,
                                                   const char* call, const char* does) {
  if (!given) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} was given an empty function; give one that {}", call, does));
  }
  return [given = std::move(given), call](Arguments... arguments) {
    try {
      given(arguments...);
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("the function given to {} has thrown: {}", call, error.what()));
    } catch (...) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("the function given to {} has thrown what is no exception", call));
    }
  };
}

}  // namespace shardsolve::krylov
