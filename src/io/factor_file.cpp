// What a factor file says about itself, whatever its kind.

#include "io/cholesky_factor_header.hpp"
#include "io/factor_file_header.hpp"
#include "io/lu_factor_header.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/factor_file.hpp>

#include <fmt/format.h>

#include <utility>

namespace shardsolve {

FactorFileInfo read_factor_info(const std::string& path) {
  const io::FileDescriptor file = io::open_for_reading(path);
  const io::FactorHeader header = io::read_factor_front(file, path).header;
  io::FactorCut cut;
  Transpose of = Transpose::none;
  if (header.kind == io::lu_kind) {
    io::LuFactorHeader lu = io::to_lu_header(header, path);
    of = lu.of_transpose ? Transpose::transpose : Transpose::none;
    cut = std::move(lu.cut);
  } else if (header.kind == io::cholesky_kind) {
    cut = io::to_cholesky_header(header, path).cut;
  } else {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("the factor file '{}' holds a factor of the kind \"{}\", and this library "
                    "loads the kinds \"{}\" and \"{}\": load it with shardsolve {}, which "
                    "wrote it",
                    path, header.kind, io::cholesky_kind, io::lu_kind, header.version));
  }
  return {.kind = header.kind,
          .dtype = cut.dtype,
          .layout = SlabLayout(std::move(cut.boundaries), cut.tile),
          .version = header.version,
          .of = of};
}

}  // namespace shardsolve
