/// Sparse matrices in files: .npz as scipy.sparse.save_npz writes it, and Matrix Market.
#pragma once

#include <shardsolve/sparse.hpp>

#include <complex>
#include <string>
#include <variant>

namespace shardsolve::sparse_files {

/// A matrix of the dtype that its file has.
using AnyCsr = std::variant<CsrMatrix<float>, CsrMatrix<double>, CsrMatrix<std::complex<float>>,
                            CsrMatrix<std::complex<double>>>;

/// The entries of a Matrix Market file.
using AnyCoo = std::variant<CooMatrix<double>, CooMatrix<std::complex<double>>>;

/// Reads an .npz file of format csr, csc or coo, compressed or not, with 32- or 64-bit indices, of
/// float32, float64, complex64 or complex128 in little-endian order. Nothing in it is evaluated or
/// unpickled. Entries of the same place are added, as SciPy takes them; rows come out in order;
/// zeros, infinities and NaN stay as they are.
///
/// Throws Error(io) if the file cannot be read; Error(invalid_argument) if it is something else, of
/// another format or dtype, damaged or cut off, larger than 2^27 rows or columns, or has indices
/// out of range; each message names the file. Throws Error(out_of_memory).
AnyCsr read_npz(const std::string& path);

/// Reads a Matrix Market file, of format coordinate or array, of field real, double, integer,
/// unsigned-integer, pattern (each entry is 1, whatever follows) or complex, general, symmetric,
/// skew-symmetric or hermitian: float64, or complex128 if complex. Of the symmetric kinds either
/// triangle may be listed, in an array the lower one (the strictly lower one if skew-symmetric);
/// the diagonal is what is listed. Indices count from 1. Entries of the same place are added; zeros
/// stay, but those of an array.
///
/// Throws what read_npz throws; messages about a line name it, counted from 1. Refused is what
/// scipy.io.mmread doubles: an entry of a symmetric kind that is listed in both triangles.
/// Format: R. F. Boisvert, R. Pozo, K. A. Remington, "The Matrix Market Exchange Formats: Initial
/// Design", NISTIR 5935 (1996).
AnyCsr read_matrix_market(const std::string& path);
/// Likewise as a list of entries.
AnyCoo read_matrix_market_entries(const std::string& path);

/// Whether the file begins like one. Throws Error(io).
bool is_matrix_market(const std::string& path);

/// Either of them, by what the file begins with.
AnyCsr read_sparse_matrix(const std::string& path);

}  // namespace shardsolve::sparse_files
