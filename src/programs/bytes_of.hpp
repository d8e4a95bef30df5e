/// From views to what communicators move.
#pragma once

#include "comm/communicator.hpp"

#include <shardsolve/matrix_view.hpp>

#include <type_traits>

namespace shardsolve::programs {

/// A view without gaps as a piece to send or receive.
template <class T>
comm::Bytes bytes_of(MatrixView<T> view) {
  return {const_cast<std::remove_const_t<T>*>(view.data()),
          static_cast<std::size_t>(view.rows() * view.columns()) * sizeof(T)};
}

}  // namespace shardsolve::programs
