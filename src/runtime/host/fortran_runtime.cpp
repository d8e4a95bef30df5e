// All that the LAPACK in OpenBLAS asks of the Fortran runtime where we call it: gesdd joins the
// letters of its options, to look up a block size. With it here the library needs no libgfortran,
// which is not everywhere.

#include <algorithm>
#include <cstddef>

namespace shardsolve::runtime::host {

/// target = first, then second, then blanks; what does not fit is left out. As GCC's Fortran calls
/// it since version 8.
extern "C" void shardsolve_join_letters(std::size_t size, char* target, std::size_t first_size,
                                        const char* first, std::size_t second_size,
                                        const char* second) asm("_gfortran_concat_string");

extern "C" void shardsolve_join_letters(std::size_t size, char* target, std::size_t first_size,
                                        const char* first, std::size_t second_size,
                                        const char* second) {
  first_size = std::min(first_size, size);
  second_size = std::min(second_size, size - first_size);
  char* end = std::copy_n(first, first_size, target);
  end = std::copy_n(second, second_size, end);
  std::fill(end, target + size, ' ');
}

}  // namespace shardsolve::runtime::host
